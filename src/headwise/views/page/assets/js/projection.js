/** How one number of q, k or v was made: the products of the vector that came in with a row of W_Q, W_K or W_V, and
 * then the norm and the rotation, where the model has them. */

import { dot } from "./attention.js";

/** @typedef {import("./data.js").Place} Place */
/** @typedef {"query" | "key" | "value"} Which */
/** @typedef {{given: Float32Array, weights: Float32Array, bias: number | null, sum: number, normed: number | null,
 *   turned: {cosine: number, sine: number, partner: number, other: number} | null, result: number}} Made */

/** Whether the page has what made q, k and v of this head. @param {Place} place @param {number} head a place among `heads` */
export function isProjected(place, head) {
  return place.header.projected?.head === place.heads[head];
}

/** One number of q, k or v, in float64. @param {Place} place @param {Which} which
 * @param {number} row of the queries, or of the keys @param {number} element @returns {Made} */
export function madeOf(place, which, row, element) {
  const arrays = place.arrays;
  const source = which !== "query" && arrays.given_memory ? arrays.given_memory : arrays.given;
  const width = source.shape[1];
  const given = source.values.subarray(row * width, (row + 1) * width);
  const weight = arrays[`${which}_weight`];
  const bias = arrays[`${which}_bias`]?.values ?? null;
  const rowOf = (/** @type {number} */ at) => weight.values.subarray(at * width, (at + 1) * width);
  const sums = Array.from({ length: weight.shape[0] }, (_, at) => dot(given, rowOf(at)) + (bias ? bias[at] : 0));
  const norm = place.header.projected?.norms[which];
  const normed = norm ? normalised(sums, norm, arrays[`${which}_norm`].values, arrays[`${which}_norm_bias`]?.values) : sums;
  const turned = which === "value" ? null : rotated(place, normed, which === "query" ? row + place.offset : row, element);
  const result = turned ? normed[element] * turned.cosine + turned.other * turned.sine : normed[element];
  return { given, weights: rowOf(element), bias: bias && bias[element], sum: sums[element], normed: norm ? normed[element] : null, turned, result };
}

/** @param {number[]} sums @param {{kind: string, epsilon: number}} norm @param {Float32Array} weight @param {Float32Array} [bias] */
function normalised(sums, { kind, epsilon }, weight, bias) {
  const mean = kind === "layer" ? sums.reduce((sum, one) => sum + one, 0) / sums.length : 0;
  const apart = sums.map((one) => one - mean);
  const size = Math.sqrt(dot(apart, apart) / apart.length + epsilon);
  return apart.map((one, at) => (one / size) * weight[at] + (bias ? bias[at] : 0));
}

/** The angle's cosine and sine, and the other coordinate of the pair, with its sign; null where nothing turns.
 * @param {Place} place @param {number[]} vector @param {number} position @param {number} element */
function rotated(place, vector, position, element) {
  const { cosine, sine } = place.arrays;
  if (!cosine || element >= 2 * cosine.shape[1]) return null;
  const half = cosine.shape[1];
  const first = element < half;
  const partner = first ? element + half : element - half;
  const at = position * half + (element % half);
  return { cosine: cosine.values[at], sine: sine.values[at], partner, other: first ? -vector[partner] : vector[partner] };
}
