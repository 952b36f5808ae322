/** How a head looks: which share of its weight goes where; and words that take much weight but write little. */

/** @typedef {import("./data.js").Place} Place */

/** In the order they are tested: a key belongs to the first kind that fits it. */
export const KINDS = [
  { name: "first", sign: "⊢", label: "first or special" },
  { name: "self", sign: "●", label: "itself" },
  { name: "previous", sign: "←", label: "previous word" },
  { name: "next", sign: "→", label: "next word" },
  { name: "same", sign: "=", label: "same word" },
  { name: "far", sign: "↔", label: "far away" },
];

/** Keys further than this are far away. */
const NEAR = 5;

/** The kind of every pair of tokens, [query · key]: a number in KINDS, or KINDS.length for near by.
 * @param {Place} place */
export function kindsOf(place) {
  const { queries, keys, offset } = place;
  const kinds = new Uint8Array(queries * keys);
  const groups = [wordNumbers(place.looking), wordNumbers(place.lookedAt)];
  const texts = [wordTexts(place.looking), wordTexts(place.lookedAt)];
  const apart = place.mode === "cross";
  for (let query = 0; query < queries; query++) {
    const here = query + offset;
    for (let key = 0; key < keys; key++) {
      kinds[query * keys + key] = kindOf(here, key, place, groups, texts, apart);
    }
  }
  return kinds;
}

/** @param {number} here @param {number} key @param {Place} place @param {number[][]} groups @param {string[][]} texts
 *  @param {boolean} apart whether the two streams are different texts */
function kindOf(here, key, place, groups, texts, apart) {
  const same = texts[0][here] === texts[1][key];
  if (key === 0 || place.lookedAt.special[key]) return !apart && here === key && !place.lookedAt.special[key] ? 1 : 0;
  if (apart) return same ? 4 : KINDS.length;
  const step = groups[1][key] - groups[0][here];
  if (step === 0) return 1;
  if (step === -1) return 2;
  if (step === 1) return 3;
  if (same) return 4;
  return Math.abs(step) > NEAR ? 5 : KINDS.length;
}

/** The number of the word that each token belongs to. @param {import("./data.js").Stream} stream */
function wordNumbers(stream) {
  const numbers = new Array(stream.tokens.length).fill(-1);
  stream.words.forEach((tokens, number) => tokens.forEach((token) => (numbers[token] = number)));
  return numbers;
}

/** The text of each token's word, without case. @param {import("./data.js").Stream} stream */
function wordTexts(stream) {
  const texts = new Array(stream.tokens.length).fill("");
  for (const tokens of stream.words) {
    const text = tokens.map((token) => stream.tokens[token].trim()).join("").toLowerCase();
    for (const token of tokens) texts[token] = text;
  }
  return texts;
}

/** The share of the weight that each kind gets, over the queries that are not special.
 * @param {Place} place @param {Float32Array} weights @param {Uint8Array} kinds */
export function sharesOf(place, weights, kinds) {
  const sums = new Array(KINDS.length + 1).fill(0);
  let total = 0;
  for (let query = 0; query < place.queries; query++) {
    if (place.looking.special[query + place.offset]) continue;
    for (let at = query * place.keys; at < (query + 1) * place.keys; at++) {
      sums[kinds[at]] += weights[at];
      total += weights[at];
    }
  }
  return sums.map((sum) => (total ? sum / total : 0));
}

/** The mean length of what a head wrote. @param {Place} place @param {number} head */
export function meanWritten(place, head) {
  const norms = place.headNorms(head);
  return norms ? norms.reduce((sum, one) => sum + one, 0) / norms.length : null;
}

/** For each key of a matrix its share of all weight, and of all that is written.
 * @param {Float32Array} weights @param {Float32Array | null} wrote @param {number} keys */
export function receivedBy(weights, wrote, keys) {
  const looked = columnShares(weights, keys);
  return { looked, written: wrote ? columnShares(wrote, keys) : null };
}

/** @param {Float32Array} values @param {number} keys */
function columnShares(values, keys) {
  const sums = new Float64Array(keys);
  let total = 0;
  for (let at = 0; at < values.length; at++) {
    sums[at % keys] += values[at];
    total += values[at];
  }
  return sums.map((sum) => (total ? sum / total : 0));
}

/** The keys that take at least a quarter of the weight and write less than half of that share.
 * @param {{looked: Float64Array, written: Float64Array | null}} received */
export function sinksOf({ looked, written }) {
  if (!written || looked.length < 3) return [];
  const found = [];
  for (let key = 0; key < looked.length; key++) {
    if (looked[key] >= 0.25 && written[key] < looked[key] / 2) found.push(key);
  }
  return found;
}
