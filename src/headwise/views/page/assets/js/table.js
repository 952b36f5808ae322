/** The worked table: every step for one word and one head, unfolding left to right. */

import { ink } from "./colour.js";
import { choice, fill, h, number } from "./dom.js";
import { originOf, Provenance } from "./provenance.js";
import { STEPS } from "./state.js";
import { formula, sourcesOf, story, tellingCell } from "./story.js";
import { shown } from "./units.js";
import { digits, indexAt, largest, strip, typical } from "./strip.js";

/** @typedef {import("./main.js").Frame} Frame */
/** @typedef {{name: string, title: string, step: number, cell: (key: number) => any}} Column */
/** @typedef {{what: string, key: number, element: number}} Cell */

const PAGE = 40;
/** Where there is room, what is open stands beside the table. */
export const BESIDE = matchMedia("(min-width: 1080px)");

export class Table {
  /** @param {HTMLElement} element @param {import("./state.js").Store} store @param {import("./reading.js").Reading} reading
   *  @param {import("./strip.js").Readout} readout */
  constructor(element, store, reading, readout) {
    this.store = store;
    this.reading = reading;
    this.steps = choice("Steps", STEPS.map((text, value) => ({ value, text })), (step) => store.set({ step }));
    this.steps.element.classList.add("steps");
    this.back = h("button", { type: "button", onclick: () => this.#walk(-1) }, "‹ Back");
    this.next = h("button", { type: "button", onclick: () => this.#walk(1) }, "Next ›");
    this.numbers = choice("Vectors", [{ value: false, text: "Strips" }, { value: true, text: "Numbers" }], (numbers) => store.set({ numbers }));
    this.order = choice("Order of the rows", [{ value: false, text: "As in the text" }, { value: true, text: "By weight" }], (sorted) => {
      this.sorted = sorted;
      this.page = 0;
      this.#build();
    });
    this.story = h("p", { className: "story" });
    this.token = h("div", { className: "bar" });
    this.scroll = h("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Worked table" });
    this.pages = h("div", { className: "pages" });
    const panel = h("div", { className: "provenance", role: "group", "aria-label": "Where the number comes from" });
    this.provenance = new Provenance(panel, "Click a cell, or press Enter on it, to see where its number comes from.",
      (element) => this.#open({ .../** @type {Cell} */ (this.shown), element }), () => this.closeCell());
    fill(element, h("div", { className: "bar" }, h("div", { className: "choice" }, this.back, this.next), this.steps.element),
      this.story, h("div", { className: "bar" }, this.numbers.element, this.order.element), this.token,
      h("div", { className: "beside" }, h("div", { className: "main" }, this.scroll, this.pages), panel));
    this.sorted = false;
    this.page = 0;
    /** @type {Cell | null} what was opened */
    this.cell = null;
    /** Whether the cell that a step shows best stays closed. */
    this.closed = false;
    readout.watch(this.scroll);
    for (const name of ["pointerover", "focusin"]) this.scroll.addEventListener(name, (/** @type {Event} */ event) => this.#light(event.target));
    for (const name of ["pointerleave", "focusout"]) this.scroll.addEventListener(name, () => this.#light(null));
    BESIDE.addEventListener("change", () => this.frame && this.#reopen());
    this.scroll.addEventListener("click", (/** @type {MouseEvent} */ event) => this.#click(event));
    this.scroll.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
  }

  /** @param {number} by */
  #walk(by) {
    this.store.set({ step: this.store.state.step + by });
  }

  /** @param {Frame} frame @param {Set<string>} changed */
  update(frame, changed) {
    this.frame = frame;
    const { state, place } = frame;
    const own = ["mode", "layer", "head", "token", "units", "step", "numbers", "theme"];
    if (!own.some((name) => changed.has(name))) return;
    this.steps.show(state.step);
    this.numbers.show(state.numbers);
    this.back.disabled = state.step === 0;
    this.next.disabled = state.step === STEPS.length - 1;
    if (changed.has("mode")) {
      this.page = 0;
      this.sorted = place.keys > PAGE;
      this.cell = null;
    }
    if (changed.has("step")) this.cell = null;
    this.#chooseToken();
    this.#build();
    if (changed.has("step") && changed.size === 1) frame.announce(this.story.textContent ?? "");
    if (changed.has("step")) this.#reveal();
  }

  /** A word of several tokens: the steps are those of one token. */
  #chooseToken() {
    const { state, rows, place } = /** @type {Frame} */ (this.frame);
    const unit = rows.find(({ tokens }) => tokens.includes(state.token));
    const several = unit && unit.tokens.length > 1;
    this.token.hidden = !several;
    if (!several) return;
    const tokens = choice("Token", unit.tokens.map((token) => ({ value: token, text: shown(place.looking.tokens[token]) })), (token) => this.store.set({ token }));
    tokens.show(state.token);
    fill(this.token, h("span", { className: "caption" }, h("bdi", {}, unit.label), " is several tokens; the steps are those of "), tokens.element);
  }

  #context() {
    const { state, place, head } = /** @type {Frame} */ (this.frame);
    const query = state.token - place.offset;
    const steps = this.reading.steps(place, head, query);
    const names = { query: shown(place.looking.tokens[state.token]), keys: place.lookedAt.tokens.slice(0, place.keys).map(shown) };
    return { place, head, query, steps, names, step: state.step };
  }

  #build() {
    const { state, place } = /** @type {Frame} */ (this.frame);
    this.order.show(this.sorted);
    const context = this.#context();
    const order = context.names.keys.map((_, key) => key);
    if (this.sorted) order.sort((a, b) => context.steps.weights[b] - context.steps.weights[a]);
    const pages = Math.ceil(order.length / PAGE);
    this.page = Math.min(this.page, pages - 1);
    const keys = order.slice(this.page * PAGE, (this.page + 1) * PAGE);
    const columns = columnsOf(context, state.numbers).filter(({ step }) => step <= state.step);
    const header = h("tr", {}, h("th", { scope: "col" }, "Word"), columns.map(({ name, title, step }) =>
      h("th", { scope: "col", className: step === state.step ? `now ${name}` : name }, title)));
    const body = keys.map((key) => h("tr", { className: place.allows(context.head, context.query, key) ? "" : "masked" },
      h("th", { scope: "row" }, h("bdi", {}, context.names.keys[key])),
      columns.map((column) => this.#cell(column, key))));
    const shown = state.step >= 7;
    const foot = shown && h("tfoot", {}, h("tr", {}, h("th", { scope: "row", colSpan: columns.length }, "z, the sum of weight·v over all words"),
      h("td", { className: "weighted", tabIndex: -1, data: { what: "z", key: "0" } }, drawn(context.steps.z, typical([context.steps.z]), `z of ${context.names.query}`, state.numbers))));
    const caption = h("caption", {}, `Layer ${place.layer}, head ${state.head}: the steps for `, h("b", {}, h("bdi", {}, context.names.query)));
    const edited = place.header.replaced.includes(state.head) && "An edit replaced z of this head: the layer went on with another vector, shown below among all heads.";
    fill(this.story, formula(context, state.step), " ", story(context, state.step));
    fill(this.scroll, this.#lead(context), edited && h("p", { className: "note" }, edited), h("table", { className: "worked" }, caption, h("thead", {}, header), h("tbody", {}, body), foot));
    const first = this.scroll.querySelector("td");
    if (first) first.tabIndex = 0;
    this.#paging(pages, order.length);
    this.#reopen();
  }

  /** What was opened stays open; before that, where there is room, the cell that the step shows best. */
  #reopen() {
    const context = this.#context();
    const telling = BESIDE.matches && !this.closed ? tellingCell(context, context.step, (what) => this.#has(what)) : null;
    this.#show(this.cell && this.#has(this.cell.what) ? this.cell : telling);
  }

  /** Where the table is wider than the window, the column of the step is in view. */
  #reveal() {
    const columns = this.scroll.querySelectorAll("thead th");
    const now = [...columns].reverse().find((one) => one.classList.contains("now")) ?? columns[columns.length - 1];
    this.scroll.scrollLeft = now.offsetLeft + now.offsetWidth + 8 - this.scroll.clientWidth;
  }

  /** @param {string} what */
  #has(what) {
    return this.scroll.querySelector(`[data-what="${what}"]`) !== null;
  }

  /** Mark what the number under the pointer is made from. @param {EventTarget | null} target */
  #light(target) {
    for (const one of this.scroll.querySelectorAll(".source")) one.classList.remove("source");
    const cell = target instanceof Element ? /** @type {HTMLElement | null} */ (target.closest("td[data-what]")) : null;
    if (!cell) return;
    const sources = sourcesOf(cell.dataset.what ?? "", Number(cell.dataset.key), (what) => this.#has(what));
    for (const selector of sources) for (const one of this.scroll.querySelectorAll(selector)) one.classList.add("source");
  }

  /** The chosen word itself: its embedding and its q. @param {any} context */
  #lead(context) {
    const { state } = /** @type {Frame} */ (this.frame);
    const { place, steps, names } = context;
    const input = place.input(context.query);
    const cell = (/** @type {string} */ what, /** @type {any} */ content) => h("button", { type: "button", className: "vector", data: { what, key: String(state.token) } }, content);
    return h("div", { className: "lead" }, h("b", { className: "name" }, h("bdi", {}, names.query)),
      input && cell("input", drawn(input, typical([input]), `embedding of ${names.query}`, state.numbers, "long")),
      input && state.step >= 1 && h("span", { className: "arrow" }, "· W_Q →"),
      state.step >= 1 && [h("span", { className: "letter query" }, "q"), cell("query", drawn(steps.q, typical([steps.q]), `q of ${names.query}`, state.numbers))]);
  }

  /** @param {Column} column @param {number} key */
  #cell(column, key) {
    return h("td", { className: column.name, tabIndex: -1, data: { what: column.name, key: String(key) } }, column.cell(key));
  }

  /** @param {number} pages @param {number} count */
  #paging(pages, count) {
    this.pages.hidden = pages < 2;
    const turn = (/** @type {number} */ by) => () => {
      this.page += by;
      this.#build();
    };
    fill(this.pages, h("button", { type: "button", disabled: this.page === 0, onclick: turn(-1) }, "‹ Earlier rows"),
      h("span", {}, `rows ${this.page * PAGE + 1} to ${Math.min(count, (this.page + 1) * PAGE)} of ${count}`),
      h("button", { type: "button", disabled: this.page === pages - 1, onclick: turn(1) }, "Further rows ›"));
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const cell = /** @type {HTMLElement | null} */ (target.closest("[data-what]"));
    if (!cell) return;
    const canvas = target.closest("canvas");
    this.#open({ what: /** @type {string} */ (cell.dataset.what), key: Number(cell.dataset.key), element: canvas ? indexAt(canvas, event) : 0 });
  }

  /** Show where the weight of a key comes from. @param {number} key */
  point(key) {
    this.#open({ what: "weights", key, element: 0 });
  }

  /** @param {Cell} cell */
  #open(cell) {
    this.cell = cell;
    this.closed = false;
    this.#show(cell);
  }

  /** @param {Cell | null} cell */
  #show(cell) {
    this.shown = cell;
    const origin = cell && originOf(this.#context(), cell.what, cell.key, cell.element);
    this.provenance.show(origin);
    for (const one of this.scroll.querySelectorAll("[data-what]")) {
      one.classList.toggle("chosen", cell !== null && origin !== null && one.dataset.what === cell.what && (cell.what === "z" || Number(one.dataset.key) === cell.key));
    }
  }

  /** @returns {boolean} whether something was open */
  closeCell() {
    const open = this.cell !== null;
    const back = /** @type {HTMLElement | null} */ (this.scroll.querySelector(".chosen"));
    this.cell = null;
    this.closed = true;
    this.#show(null);
    if (open && this.provenance.element.contains(document.activeElement) || document.activeElement === document.body) back?.focus();
    return open;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const cell = /** @type {HTMLElement} */ (event.target);
    if (!cell.matches?.("td[data-what]") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#open({ what: /** @type {string} */ (cell.dataset.what), key: Number(cell.dataset.key), element: 0 });
      return;
    }
    const rows = [...this.scroll.querySelectorAll("tbody tr, tfoot tr")].map((row) => [...row.querySelectorAll("td")]);
    const row = rows.findIndex((cells) => cells.includes(cell));
    const column = rows[row].indexOf(cell);
    const target = { ArrowUp: rows[row - 1]?.[column], ArrowDown: rows[row + 1]?.[column] ?? rows[row + 1]?.[0], ArrowLeft: rows[row][column - 1],
      ArrowRight: rows[row][column + 1], Home: rows[row][0], End: rows[row].at(-1) }[event.key];
    if (!target) return;
    event.preventDefault();
    cell.tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  }

  /** Every number of the table, whole. */
  csv() {
    const { place, head, query, steps, names } = this.#context();
    const vector = (/** @type {string} */ letter, /** @type {number} */ size) => Array.from({ length: size }, (_, at) => `${letter}${at}`);
    const title = ["word", "q·k", "scaled", "bias", "score", "weight", ...vector("k", place.dim), ...vector("v", place.valueDim), ...vector("weight·v", place.valueDim)];
    const rows = names.keys.map((name, key) => [name, steps.products[key], steps.scaled[key], steps.bias[key],
      place.allows(head, query, key) ? steps.scores[key] : "masked", steps.weights[key], ...place.key(head, key), ...place.value(head, key),
      ...Array.from(place.value(head, key), (one) => one * steps.weights[key])]);
    const blanks = new Array(5 + place.dim + place.valueDim).fill("");
    return [title, ...rows, ["z", ...blanks, ...steps.z], ["q", "", "", "", "", "", ...steps.q]];
  }

  /** The picture for export. @param {import("./paint.js").Painter} paint */
  export(paint) {
    exportTable(paint, this.scroll);
  }
}

/** The steps as columns. @param {any} context @param {boolean} numbers @returns {Column[]} */
function columnsOf({ place, head, query, steps, names }, numbers) {
  const all = Array.from({ length: place.keys }, (_, key) => key);
  const most = { k: typical(all.map((key) => place.key(head, key))), v: typical(all.map((key) => place.value(head, key))) };
  const inputs = place.mode === "cross" ? [] : all.map((key) => place.input(key - place.offset)).filter(Boolean);
  const widest = typical(inputs);
  const weighted = (/** @type {number} */ key) => Array.from(place.value(head, key), (one) => one * steps.weights[key]);
  const loudest = largest(all.map(weighted));
  const biased = "bias" in place.arrays;
  /** @type {(Column | null | false)[]} */
  const columns = [
    inputs.length > 0 && { name: "input", title: "embedding", step: 0, cell: (key) => drawn(place.input(key - place.offset) ?? [], widest, `embedding of ${names.keys[key]}`, numbers) },
    { name: "key", title: "k", step: 1, cell: (key) => drawn(place.key(head, key), most.k, `k of ${names.keys[key]}`, numbers) },
    { name: "value", title: "v", step: 1, cell: (key) => drawn(place.value(head, key), most.v, `v of ${names.keys[key]}`, numbers) },
    { name: "products", title: "q·k", step: 2, cell: (key) => number(steps.products[key]) },
    { name: "scaled", title: "÷√d", step: 3, cell: (key) => number(steps.scaled[key]) },
    (biased || place.masked) && { name: "scores", title: biased ? (place.masked ? "+ bias, mask" : "+ bias") : "mask", step: 4,
      cell: (key) => (place.allows(head, query, key) ? number(steps.scores[key]) : "masked") },
    { name: "weights", title: "softmax", step: 5, cell: (key) => [h("span", { className: "bar", style: { "--share": String(steps.weights[key]) } }), h("span", { className: "figure" }, number(steps.weights[key]))] },
    { name: "weighted", title: "weight·v", step: 6, cell: (key) => drawn(weighted(key), loudest, `weight·v of ${names.keys[key]}`, numbers) },
  ];
  return /** @type {Column[]} */ (columns.filter(Boolean));
}

/** @param {ArrayLike<number>} vector @param {number} most @param {string} label @param {boolean} numbers @param {string} [size] */
function drawn(vector, most, label, numbers, size) {
  return numbers ? digits(vector) : strip(vector, most, label, size);
}

/** Draw a table of strips and numbers as it stands. @param {import("./paint.js").Painter} paint @param {HTMLElement} area */
export function exportTable(paint, area) {
  const box = area.getBoundingClientRect();
  const place = (/** @type {Element} */ one) => {
    const own = one.getBoundingClientRect();
    return { x: own.left - box.left + area.scrollLeft, y: own.top - box.top + area.scrollTop, width: own.width, height: own.height };
  };
  paint.size(area.scrollWidth, area.scrollHeight);
  for (const canvas of area.querySelectorAll("canvas")) {
    const { x, y, width, height } = place(canvas);
    paint.image(canvas, [0, 0, canvas.width, canvas.height], [x, y, width, height]);
  }
  for (const row of area.querySelectorAll(".worked tr")) {
    const { x, y, width, height } = place(row);
    paint.line(x, y + height, x + width, y + height, ink("line"));
  }
  for (const bar of /** @type {NodeListOf<HTMLElement>} */ (area.querySelectorAll(".bar"))) {
    const { x, y, width, height } = place(bar);
    paint.rect(x, y, width, height, ink("wash"));
    paint.rect(x, y, width * Number(bar.style.getPropertyValue("--share")), height, ink("query"));
  }
  const walker = document.createTreeWalker(area, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.textContent?.trim()) continue;
    range.selectNodeContents(node);
    const { x, y, height } = place(/** @type {any} */ (range));
    const style = getComputedStyle(/** @type {Element} */ (node.parentElement));
    const serif = style.fontFamily.includes("Palatino");
    paint.text(node.textContent.trim(), x, y + height / 2, { size: parseFloat(style.fontSize), fill: style.color, bold: Number(style.fontWeight) >= 600, serif });
  }
}
