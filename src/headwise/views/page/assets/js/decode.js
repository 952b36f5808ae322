/** Text blocks back to numbers: base 85, inflate, bytes put back side by side, half precision. */

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%()*+,-./:;=?@[]^_|~";

const DIGITS = new Uint8Array(128);
for (let digit = 0; digit < ALPHABET.length; digit++) DIGITS[ALPHABET.charCodeAt(digit)] = digit;

/** One digit tells how many bytes fill the end; then five digits are four bytes, the highest first.
 * @param {string} text @returns {Uint8Array<ArrayBuffer>} */
export function fromBase85(text) {
  const bytes = new Uint8Array(((text.length - 1) / 5) * 4);
  for (let from = 1, to = 0; from < text.length; from += 5) {
    let word = 0;
    for (let place = 0; place < 5; place++) word = word * 85 + DIGITS[text.charCodeAt(from + place) & 127];
    bytes[to++] = word >>> 24;
    bytes[to++] = word >>> 16;
    bytes[to++] = word >>> 8;
    bytes[to++] = word;
  }
  return bytes.subarray(0, bytes.length - DIGITS[text.charCodeAt(0) & 127]);
}

/** @param {Uint8Array<ArrayBuffer>} bytes a zlib stream
 *  @param {number} length how many bytes come out */
export async function inflate(bytes, length) {
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  const result = new Uint8Array(length);
  const reader = stream.readable.getReader();
  for (let filled = 0; filled < length; ) {
    const { value, done } = await reader.read();
    if (done) throw new Error("a block of numbers is shorter than its shape");
    result.set(value.subarray(0, length - filled), filled);
    filled += value.length;
  }
  reader.cancel().catch(() => {});
  return result;
}

/** Bytes sorted by their place in the number, back to numbers that lie byte by byte.
 * @param {Uint8Array} sorted @param {number} width */
export function unsort(sorted, width) {
  const count = sorted.length / width;
  const bytes = new Uint8Array(sorted.length);
  for (let place = 0; place < width; place++) {
    for (let at = 0, from = place * count; at < count; at++) bytes[at * width + place] = sorted[from + at];
  }
  return bytes;
}

/** The number that 16 bits of half precision stand for.
 * @param {number} bits */
export function fromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

const HALVES = new Float32Array(65536);

/** @param {Uint8Array} bytes */
function fromHalves(bytes) {
  if (HALVES[0x3c00] === 0) for (let bits = 0; bits < HALVES.length; bits++) HALVES[bits] = fromHalf(bits);
  const bits = new Uint16Array(bytes.buffer);
  const result = new Float32Array(bits.length);
  for (let at = 0; at < bits.length; at++) result[at] = HALVES[bits[at]];
  return result;
}

const WIDTHS = { float32: 4, float16: 2, uint8: 1 };

/** The numbers of one block.
 * @param {string} text @param {{type: keyof typeof WIDTHS, shape: number[]}} kind
 * @returns {Promise<Float32Array | Uint8Array>} */
export async function decode(text, kind) {
  const width = WIDTHS[kind.type];
  const count = kind.shape.reduce((product, size) => product * size, 1);
  const bytes = unsort(await inflate(fromBase85(text), count * width), width);
  if (kind.type === "float16") return fromHalves(bytes);
  if (kind.type === "uint8") return bytes;
  return new Float32Array(bytes.buffer);
}
