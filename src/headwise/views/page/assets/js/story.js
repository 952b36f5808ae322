/** What each step of the worked table does: one sentence with the numbers at hand, and its part of the formula. */

import { h, number } from "./dom.js";

/** @typedef {import("./provenance.js").Context} Context */

/** The column in which a step can be followed best. */
const TELLING = ["", "", "products", "scaled", "scores", "weights", "weighted", "z"];

/** From which columns a number is made: of its own row, or of all rows.
 * @type {Record<string, {from: string[], all?: boolean}>} */
const MADE_FROM = {
  products: { from: ["key"] },
  scaled: { from: ["products"] },
  scores: { from: ["scaled"] },
  weights: { from: ["scores", "scaled"], all: true },
  weighted: { from: ["weights", "value"] },
  z: { from: ["weighted"], all: true },
};

/** The cell in which a step shows best: that of the word that gets most weight.
 * @param {Context} context @param {number} step @param {(what: string) => boolean} there whether a column is in the table */
export function tellingCell({ steps }, step, there) {
  const what = TELLING[step] === "scores" && !there("scores") ? "scaled" : TELLING[step];
  return what ? { what, key: what === "z" ? 0 : heaviest(steps.weights), element: 0 } : null;
}

/** The cells that a number is made from. @param {string} what @param {number} key @param {(what: string) => boolean} there */
export function sourcesOf(what, key, there) {
  const made = MADE_FROM[what];
  if (!made) return [];
  // The softmax takes the last column before it, with or without a bias.
  const names = made.all ? made.from.filter(there).slice(0, 1) : made.from;
  const cells = names.map((name) => `td[data-what="${name}"]${made.all ? "" : `[data-key="${key}"]`}`);
  return what === "products" ? [...cells, '.vector[data-what="query"]'] : cells;
}

/** z = softmax(q·k ÷ √d + bias)·v, with the part of this step marked. @param {Context} context @param {number} step */
export function formula({ place }, step) {
  const scaled = isRoot(place) ? " ÷ √d" : ` · ${number(place.header.scale)}`;
  const parts = /** @type {[string, number[]][]} */ ([
    ["z", [7]], [" = ", []], ["softmax", [5]], ["(", [5]], ["q", [1, 2]], [" · ", [2]], ["k", [1, 2]], [scaled, [3]],
    ...("bias" in place.arrays ? [[" + bias", [4]]] : []), ...(place.masked ? [[", masked", [4]]] : []), [")", [5]], [" · ", [6]], ["v", [1, 6]],
  ]);
  return h("span", { className: "formula" }, parts.map(([text, steps]) => h("span", { className: steps.includes(step) ? "lit" : "" }, text)));
}

/** @param {Context} context @param {number} step @returns {string} */
export function story({ place, head, query, steps, names }, step) {
  const who = `“${names.query}”`;
  const best = heaviest(steps.weights);
  const found = `“${names.keys[best]}”`;
  const most = steps.products.reduce((one, product, at) => (product > steps.products[one] ? at : one), 0);
  const masked = names.keys.filter((_, key) => !place.allows(head, query, key)).length;
  return [
    `Every word comes in as a vector: what the model has made of it before layer ${place.layer}.`,
    `Each vector is projected to ${place.dim} numbers: ${who} asks with its query q; each word offers a key k to be found by, and a value v to be read.`,
    `q of ${who} times k of each word, number by number, all added: the better they fit, the larger. “${names.keys[most]}” fits best, with ${number(steps.products[most])}.`,
    isRoot(place) ? `Divided by √${place.dim} = ${number(Math.sqrt(place.dim))}, so that longer vectors do not make larger numbers.`
      : `Times ${number(place.header.scale)}, the scale that this model uses in place of 1 ÷ √${place.dim}.`,
    biasStory(place, masked, names.keys.length),
    `exp of each score, over the sum of all: weights that are positive and add up to 1. ${found} gets ${number(steps.weights[best])}.`,
    `The v of each word times its weight: what ${who} takes from it. Most comes from ${found}.`,
    `All of them added give z, ${steps.z.length} numbers: what head ${place.heads[head]} hands on for ${who}.`,
  ][step];
}

/** @param {import("./data.js").Place} place @param {number} masked @param {number} words */
function biasStory(place, masked, words) {
  const bias = "bias" in place.arrays ? "Added: what the model has learnt about how far apart two words are. " : "";
  if (masked) return `${bias}${masked} of ${words} words may not be seen: their score becomes −∞, and their weight 0.`;
  if (place.masked) return `${bias}From here every word may be seen: nothing is masked.`;
  return bias || "This model adds no bias to the scores here, and masks nothing.";
}

/** @param {ArrayLike<number>} weights */
function heaviest(weights) {
  let best = 0;
  for (let at = 1; at < weights.length; at++) if (weights[at] > weights[best]) best = at;
  return best;
}

/** Whether the scale is 1 ÷ √d. @param {import("./data.js").Place} place */
export function isRoot(place) {
  return Math.abs(place.header.scale * Math.sqrt(place.dim) - 1) < 1e-6;
}
