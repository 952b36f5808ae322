/** The equation in the page: weights are computed here, from the stored q, k and v. */

/** @typedef {import("./data.js").Place} Place */
/** @typedef {{q: Float32Array, products: Float64Array, scaled: Float64Array, bias: Float64Array, scores: Float64Array,
 *   highest: number, exponentials: Float64Array, denominator: number, weights: Float64Array, z: Float64Array}} Row */

/** Σ aᵢ bᵢ, each product and the sum in float64. @param {ArrayLike<number>} a @param {ArrayLike<number>} b */
export function dot(a, b) {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at] * b[at];
  return sum;
}

/** The length of a vector. @param {ArrayLike<number>} a */
export function norm(a) {
  return Math.sqrt(dot(a, a));
}

/** Every step for one query, in float64. @param {Place} place @param {number} head @param {number} query @returns {Row} */
export function stepsOf(place, head, query) {
  const q = place.query(head, query);
  const { keys } = place;
  const [products, scaled, bias, scores] = [0, 0, 0, 0].map(() => new Float64Array(keys));
  for (let key = 0; key < keys; key++) {
    products[key] = dot(q, place.key(head, key));
    scaled[key] = products[key] * place.header.scale;
    bias[key] = place.bias(head, query, key);
    scores[key] = place.allows(head, query, key) ? scaled[key] + bias[key] : -Infinity;
  }
  const { highest, exponentials, denominator, weights } = softmax(scores);
  const z = new Float64Array(place.valueDim);
  for (let key = 0; key < keys; key++) {
    if (weights[key] === 0) continue;
    const v = place.value(head, key);
    for (let at = 0; at < z.length; at++) z[at] += weights[key] * v[at];
  }
  return { q, products, scaled, bias, scores, highest, exponentials, denominator, weights, z };
}

/** exp(s − highest) / Σ exp(s − highest); a row that may see nothing gives zeros. @param {Float64Array} scores */
export function softmax(scores) {
  const highest = scores.reduce((most, score) => Math.max(most, score), -Infinity);
  const exponentials = scores.map((score) => (score === -Infinity ? 0 : Math.exp(score - highest)));
  const denominator = exponentials.reduce((sum, one) => sum + one, 0);
  return { highest, exponentials, denominator, weights: exponentials.map((one) => (denominator ? one / denominator : 0)) };
}

/** The scores of all queries of a head, [query · key], −∞ where masked. @param {Place} place @param {number} head */
export function scoresOf(place, head) {
  const { queries, keys, dim } = place;
  const scores = new Float32Array(queries * keys);
  const { scale } = place.header;
  const biased = "bias" in place.arrays;
  const masked = place.masked;
  const stored = place.arrays.key.values;
  const start = place.header.shared[head] * keys * dim;
  for (let query = 0; query < queries; query++) {
    const q = place.query(head, query);
    for (let key = 0, from = start, to = query * keys; key < keys; key++, to++) {
      if (masked && !place.allows(head, query, key)) {
        scores[to] = -Infinity;
        from += dim;
        continue;
      }
      let sum = 0;
      for (let at = 0; at < dim; at++) sum += q[at] * stored[from++];
      scores[to] = sum * scale + (biased ? place.bias(head, query, key) : 0);
    }
  }
  return scores;
}

/** The weights of all queries of a head, [query · key]. @param {Place} place @param {Float32Array} scores */
export function weightsOf(place, scores) {
  const { queries, keys } = place;
  const weights = new Float32Array(scores.length);
  for (let query = 0; query < queries; query++) {
    const from = query * keys;
    let highest = -Infinity;
    for (let at = from; at < from + keys; at++) if (scores[at] > highest) highest = scores[at];
    if (highest === -Infinity) continue;
    let sum = 0;
    for (let at = from; at < from + keys; at++) sum += weights[at] = Math.exp(scores[at] - highest);
    for (let at = from; at < from + keys; at++) weights[at] /= sum;
  }
  return weights;
}

/** What one head writes into the layer's output: z times its block of W_O, [dim].
 * @param {Place} place @param {number} head @param {ArrayLike<number>} z */
export function writtenBy(place, head, z) {
  const weight = place.arrays.output_weight;
  const [, rows, dim] = weight.shape;
  const result = new Float64Array(dim);
  for (let at = 0, from = head * rows * dim; at < rows; at++) {
    for (let to = 0; to < dim; to++) result[to] += z[at] * weight.values[from++];
  }
  return result;
}
