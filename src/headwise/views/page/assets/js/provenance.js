/** Where a number comes from: the very products that were added, shown beside the table that was clicked. */

import { exact, fill, h } from "./dom.js";
import { small } from "./receipt.js";
import { isProjected, madeOf } from "./projection.js";
import { isRoot } from "./story.js";

/** @typedef {import("./data.js").Place} Place */
/** @typedef {import("./attention.js").Row} Row */
/** @typedef {{title: string, lead: string, names: string[], rows: (string | number)[][], marked?: number, result?: number,
 *   sum?: string, element?: {at: number, count: number}, steps?: [string, number][], recorded?: number,
 *   command?: string | null}} Origin */
/** @typedef {{place: Place, head: number, query: number, steps: Row, names: {query: string, keys: string[]}}} Context */

/** @param {Context} context @param {string} what a column of the table @param {number} key @param {number} element
 *  @returns {Origin | null} */
export function originOf(context, what, key, element) {
  const find = ORIGINS[what];
  return find ? find(context, key, element) : null;
}

/** @type {Record<string, (context: Context, key: number, element: number) => Origin | null>} */
const ORIGINS = {
  input: ({ place, names }, key) => {
    const input = place.input(key - place.offset);
    return input && vector(`the embedding of ${names.keys[key]}`, "e", input, `The vector of this word as it enters layer ${place.layer}. ` +
      "q, k and v are this vector times W_Q, W_K and W_V, plus their biases where there are any.");
  },
  query: (context, _, element) => projected(context, "query", context.query, context.names.query, context.steps.q, element),
  key: (context, key, element) => projected(context, "key", key, context.names.keys[key], context.place.key(context.head, key), element),
  value: (context, key, element) => projected(context, "value", key, context.names.keys[key], context.place.value(context.head, key), element),
  products: ({ place, head, steps, names }, key) => ({
    title: `q·k: ${names.query} with ${names.keys[key]}`,
    lead: "Each number of q times the number of k at the same place, all added.",
    names: ["i", "qᵢ", "kᵢ", "qᵢ · kᵢ"],
    rows: Array.from(steps.q, (one, at) => [at, one, place.key(head, key)[at], one * place.key(head, key)[at]]),
    result: steps.products[key],
    sum: "Σ qᵢ kᵢ",
  }),
  scaled: ({ place, steps, names }, key) => ({
    title: `÷√d: ${names.query} with ${names.keys[key]}`,
    lead: `q·k times ${exact(place.header.scale)}, ${isRoot(place) ? `which is 1 ÷ √${place.dim}` : "the scale this model uses"}.`,
    names: ["q·k", "scale"],
    rows: [[steps.products[key], place.header.scale]],
    result: steps.scaled[key],
    sum: "q·k × scale",
  }),
  scores: ({ place, head, query, steps, names }, key) => {
    const allowed = place.allows(head, query, key);
    return {
      title: `Bias and mask: ${names.query} with ${names.keys[key]}`,
      lead: allowed ? "The scaled product, plus what the position adds; nothing is masked here."
        : "Masked: this word may not be seen, so its score is −∞ and its weight 0.",
      names: ["q·k ÷ √d", "bias", "mask"],
      rows: [[steps.scaled[key], steps.bias[key], allowed ? "may see" : "masked"]],
      result: steps.scores[key],
      sum: "score",
    };
  },
  weights: ({ steps, names }, key) => ({
    title: `softmax: ${names.query} on ${names.keys[key]}`,
    lead: `exp(score − ${exact(steps.highest)}) over the sum of all; taking the largest score away first changes nothing and keeps the numbers small.`,
    names: ["word", "score", "exp"],
    rows: names.keys.map((name, at) => [name, steps.scores[at], steps.exponentials[at]]),
    marked: key,
    result: steps.weights[key],
    sum: `${exact(steps.exponentials[key])} ÷ ${exact(steps.denominator)}`,
  }),
  weighted: ({ place, head, steps, names }, key) => ({
    title: `weight·v of ${names.keys[key]}`,
    lead: `Each number of v times the weight ${exact(steps.weights[key])}.`,
    names: ["i", "vᵢ", "weight · vᵢ"],
    rows: Array.from(place.value(head, key), (one, at) => [at, one, one * steps.weights[key]]),
  }),
  z: ({ place, head, steps, names }, _, element) => ({
    title: `z[${element}] of ${names.query}`,
    lead: "The weights of all words times this number of their v, all added.",
    names: ["word", "weight", `v[${element}]`, "product"],
    rows: names.keys.map((name, at) => [name, steps.weights[at], place.value(head, at)[element], steps.weights[at] * place.value(head, at)[element]]),
    result: steps.z[element],
    sum: `Σ weight · v[${element}]`,
    element: { at: element, count: steps.z.length },
  }),
};

const LETTERS = { query: ["q", "W_Q"], key: ["k", "W_K"], value: ["v", "W_V"] };

/** One number of q, k or v from the vector that came in; where the projections are not in the page, the vector alone.
 * @param {Context} context @param {"query" | "key" | "value"} which @param {number} row @param {string} name
 * @param {ArrayLike<number>} recorded @param {number} element @returns {Origin} */
function projected({ place, head }, which, row, name, recorded, element) {
  const [letter, matrix] = LETTERS[which];
  if (!isProjected(place, head)) {
    return { ...vector(`${letter} of ${name}`, letter, recorded, `As the kernel received it: projected by ${matrix}. ${elsewhere(place)}`), command: opening(place, head) };
  }
  const made = madeOf(place, which, row, element);
  const cell = `${matrix}[${element}, j]`;
  const sum = `Σ xⱼ · ${cell}${made.bias === null ? "" : " + bias"}`;
  /** @type {[string, number][]} */
  const steps = made.normed !== null || made.turned ? [[sum, made.sum]] : [];
  if (made.normed !== null) steps.push([`normed over head ${place.heads[head]}`, made.normed]);
  const { turned } = made;
  const position = which === "query" ? row + place.offset : row;
  const whole = turned ? `turned at position ${position}: ${exact(made.normed ?? made.sum)} × ${exact(turned.cosine)} + ${exact(turned.other)} × ${exact(turned.sine)}` : `${letter}[${element}]`;
  const rounding = place.header.projected?.rounding === "int8" ? " x is rounded to int8 by blocks, as these packed weights have it." : "";
  return {
    title: `${letter}[${element}] of ${name}`,
    lead: `x is the vector of this word as layer ${place.layer} was given it: each of its numbers times the number of ${matrix} for head ${place.heads[head]}, all added${made.bias === null ? "" : " to the bias"}.` +
      rounding + (turned ? ` Then it is turned together with number ${turned.partner} of its pair, by an angle that grows with the position.` : ""),
    names: ["j", "xⱼ", cell, "product"],
    rows: [...(made.bias === null ? [] : [["bias", "", "", made.bias]]), ...Array.from(made.given, (one, at) => [at, one, made.weights[at], one * made.weights[at]])],
    steps,
    sum: steps.length ? (turned ? whole : `${letter}[${element}]`) : sum,
    result: made.result,
    recorded: recorded[element],
    element: { at: element, count: recorded.length },
  };
}

/** Why the projections of this head are not here. @param {Place} place */
function elsewhere({ page }) {
  if (page.unprojected !== null) return page.unprojected;
  const held = page.places.find(({ projected }) => projected);
  return `What it was projected from is in this page for layer ${held?.layer}, head ${held?.projected?.head} alone. ` +
    (page.command ? "For this one:" : "For this one, give write_page this layer and head as focus.");
}

/** The command that writes the page with this head open. @param {Place} place @param {number} head */
function opening({ page, mode, layer, heads }, head) {
  if (page.unprojected !== null || !page.command?.startsWith("headwise explain ")) return null;
  const kind = new Set(page.places.map((place) => place.mode)).size > 1 ? ` --mode ${mode}` : "";
  // Of an option that is given twice the last one counts.
  return `${page.command}${kind} --layer ${layer} --head ${heads[head]}`;
}

/** @param {string} title @param {string} letter @param {ArrayLike<number>} numbers @param {string} lead @returns {Origin} */
export function vector(title, letter, numbers, lead) {
  return { title, lead, names: ["i", `${letter}ᵢ`], rows: Array.from(numbers, (one, at) => [at, one]) };
}

/** The panel that shows one origin. */
export class Provenance {
  /** @param {HTMLElement} element @param {string} empty what it says before anything is chosen
   *  @param {(element: number) => void} choose another number of the vector @param {() => void} close */
  constructor(element, empty, choose, close) {
    this.element = element;
    this.empty = empty;
    this.choose = choose;
    this.close = close;
    this.show(null);
  }

  /** @param {Origin | null} origin */
  show(origin) {
    this.element.classList.toggle("open", origin !== null);
    if (!origin) {
      fill(this.element, h("p", { className: "empty" }, this.empty));
      return;
    }
    const close = h("button", { type: "button", className: "close", "aria-label": "Close", onclick: this.close }, "×");
    fill(this.element, h("header", {}, h("h3", {}, origin.title), close), h("p", {}, origin.lead), origin.command && h("p", {}, h("code", {}, origin.command)), origin.element && this.#chooser(origin.element),
      origin.steps?.map(([text, value]) => h("p", { className: "step" }, `${text} = `, h("b", {}, exact(value)))),
      origin.result !== undefined && this.#result(origin), this.#table(origin));
    // Only inside the panel: the page itself must not move.
    const marked = /** @type {HTMLElement | null} */ (this.element.querySelector(".marked"));
    const area = /** @type {HTMLElement | null} */ (marked?.closest(".scroll"));
    if (marked && area) area.scrollTop = marked.offsetTop - area.clientHeight / 2;
  }

  /** @param {{at: number, count: number}} element */
  #chooser({ at, count }) {
    const input = h("input", { type: "number", min: "0", max: String(count - 1), value: String(at),
      onchange: () => this.choose(Math.max(0, Math.min(count - 1, Math.round(Number(input.value) || 0)))) });
    return h("label", { className: "element" }, "Number ", input, ` of 0 to ${count - 1}`);
  }

  /** @param {Origin} origin */
  #result({ sum, result, recorded }) {
    return h("p", { className: "result" }, h("span", {}, sum), " = ", h("output", { data: { value: String(result) } }, exact(/** @type {number} */ (result))),
      recorded === undefined ? null : h("small", { className: "recorded" }, `recorded ${exact(recorded)}, ${small(Math.abs(recorded - /** @type {number} */ (result)))} apart`));
  }

  /** @param {Origin} origin */
  #table({ names, rows, marked, title }) {
    const body = rows.map((cells, at) => h("tr", { className: at === marked ? "marked" : "" }, cells.map((cell, column) =>
      column === 0 && rows.length > 1 ? h("th", { scope: "row" }, h("bdi", {}, cell)) : h("td", {}, typeof cell === "number" ? exact(cell) : cell))));
    return h("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": title },
      h("table", {}, h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, body)));
  }
}
