/** How a head looks: which share of its weight goes where; and words that take much weight but write little. */

/** @typedef {import("./data.js").Place} Place */
/** @typedef {import("./units.js").Unit} Unit */

/** In the order they are tested: a look is counted under the first that fits. */
export const KINDS = [
  { name: "first", sign: "⊢", label: "first or special" },
  { name: "self", sign: "●", label: "itself" },
  { name: "previous", sign: "←", label: "previous word" },
  { name: "next", sign: "→", label: "next word" },
  { name: "same", sign: "=", label: "same word" },
  { name: "far", sign: "↔", label: "far away" },
];

/** At least so many words away. */
const FAR = 5;

/** The kind of every look between words, [row · column]: a number in KINDS, or KINDS.length for near by.
 * @param {Unit[]} rows @param {Unit[]} columns @param {string} mode @returns {Uint8Array} */
export function kindsOf(rows, columns, mode) {
  const kinds = new Uint8Array(rows.length * columns.length);
  const texts = columns.map(({ label }) => label.trim().toLowerCase());
  const numbers = new Map(columns.map(({ tokens }, number) => [tokens[0], number]));
  rows.forEach(({ label, tokens }, row) => {
    const own = label.trim().toLowerCase();
    const here = mode === "cross" ? row : numbers.get(tokens[0]) ?? row;
    columns.forEach((column, at) => {
      const same = texts[at] === own;
      kinds[row * columns.length + at] = column.special || at === 0 ? 0 : mode === "cross" ? (same ? 4 : KINDS.length) : kindOf(at - here, same);
    });
  });
  return kinds;
}

/** @param {number} distance in words @param {boolean} same */
function kindOf(distance, same) {
  if (distance === 0) return 1;
  if (distance === -1) return 2;
  if (distance === 1) return 3;
  if (same) return 4;
  return Math.abs(distance) >= FAR ? 5 : KINDS.length;
}

/** The share of the weight that each kind gets, the mean over the words that look: no special ones, nor the first.
 * @param {Unit[]} rows @param {ArrayLike<number>} weights @param {Uint8Array} kinds */
export function sharesOf(rows, weights, kinds) {
  const columns = weights.length / rows.length;
  const sums = new Array(KINDS.length + 1).fill(0);
  const looking = rows.map((_, row) => row).filter((row) => !rows[row].special && rows[row].tokens[0] > 0);
  for (const row of looking) {
    for (let at = row * columns; at < (row + 1) * columns; at++) sums[kinds[at]] += weights[at];
  }
  return sums.map((sum) => (looking.length ? sum / looking.length : 0));
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
