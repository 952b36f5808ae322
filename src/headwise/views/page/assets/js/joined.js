/** All heads together: z of every head side by side, each through its block of W_O, and their sum, Z_f. */

import { norm, writtenBy } from "./attention.js";
import { fill, h, number } from "./dom.js";
import { Provenance, vector } from "./provenance.js";
import { indexAt, picture, strip, typical } from "./strip.js";
import { BESIDE, exportTable } from "./table.js";

/** @typedef {import("./main.js").Frame} Frame */
/** @typedef {import("./provenance.js").Origin} Origin */
/** @typedef {{head: number, at: number, z: ArrayLike<number>, written: Float64Array | null, length: number | null}} Part */

export class Joined {
  /** @param {HTMLElement} element @param {import("./state.js").Store} store @param {import("./reading.js").Reading} reading
   *  @param {import("./strip.js").Readout} readout */
  constructor(element, store, reading, readout) {
    this.store = store;
    this.reading = reading;
    this.scroll = h("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "z of every head" });
    this.note = h("p", { className: "note" });
    const panel = h("div", { className: "provenance", role: "group", "aria-label": "Where the number of the joined heads comes from" });
    this.provenance = new Provenance(panel, "Click a strip, or press Enter on it, to see where its numbers come from.",
      (element) => this.#open({ .../** @type {any} */ (this.shown), element }), () => this.closeCell());
    fill(element, h("div", { className: "beside" }, h("div", { className: "main" }, this.scroll, this.note), panel));
    /** @type {{what: string, at: number, element: number} | null} */
    this.cell = null;
    /** Whether Z_f, which is open first, was closed. */
    this.closed = false;
    /** @type {Part[]} */
    this.parts = [];
    readout.watch(this.scroll);
    this.scroll.addEventListener("click", (/** @type {MouseEvent} */ event) => this.#click(event));
    this.scroll.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
  }

  /** @param {Frame} frame @param {Set<string>} changed */
  update(frame, changed) {
    this.frame = frame;
    if (!["mode", "layer", "head", "token", "theme"].some((name) => changed.has(name))) return;
    const { place, state } = frame;
    const query = state.token - place.offset;
    const known = "output_weight" in place.arrays;
    this.parts = place.heads.map((head, at) => {
      const z = place.replacedZ(at, query) ?? this.reading.steps(place, at, query).z;
      const written = known ? writtenBy(place, at, z) : null;
      const norms = place.headNorms(at);
      return { head, at, z, written, length: written ? norm(written) : norms && norms[query] };
    });
    this.#sum(known, query);
    this.#build(known);
    this.#show(this.cell ?? (BESIDE.matches && !this.closed && this.result ? { what: "result", at: 0, element: 0 } : null));
  }

  /** The heads kept added up; what heads that are not in the page wrote is what is missing to the layer's output.
   * @param {boolean} known @param {number} query */
  #sum(known, query) {
    const { place } = /** @type {Frame} */ (this.frame);
    this.result = this.rest = null;
    if (!known) return;
    const { output, output_bias: bias } = place.arrays;
    const sum = new Float64Array(place.arrays.output_weight.shape[2]);
    for (const { written } of this.parts) written?.forEach((one, at) => (sum[at] += one));
    if (bias) bias.values.forEach((one, at) => (sum[at] += one));
    if (output) {
      const whole = output.values.subarray(query * sum.length, (query + 1) * sum.length);
      this.rest = Float64Array.from(whole, (one, at) => one - sum[at]);
      this.result = Float64Array.from(whole);
    } else if (this.parts.length === place.header.of) this.result = sum;
  }

  /** @param {boolean} known */
  #build(known) {
    const { place, state, word } = /** @type {Frame} */ (this.frame);
    const mostZ = typical(this.parts.map(({ z }) => z));
    const most = Math.max(...this.parts.map(({ length }) => length ?? 0));
    const mostWritten = typical(this.parts.flatMap(({ written }) => (written ? [written] : [])));
    const names = ["Head", "z", ...(known ? ["W_O", "z · W_O"] : []), ...(most ? ["length"] : [])];
    const rows = this.parts.map((part) => h("tr", { className: part.head === state.head ? "current" : "" }, h("th", { scope: "row" }, String(part.head)),
      this.#cell("z", part.at, strip(part.z, mostZ, `z of head ${part.head}`)),
      known && [this.#cell("weight", part.at, this.#block(part.at)), this.#cell("written", part.at, strip(/** @type {Float64Array} */ (part.written), mostWritten, `what head ${part.head} writes`, "long"))],
      most > 0 && this.#length(part, most)));
    const side = h("div", { className: "joinedz", "aria-hidden": "true" }, this.parts.map((part) => {
      const one = strip(part.z, mostZ, `z of head ${part.head}`);
      one.classList.toggle("current", part.head === state.head);
      return one;
    }));
    fill(this.scroll, h("p", { className: "caption" }, `z of ${this.parts.length === 1 ? "one head" : `${this.parts.length} heads`}, side by side`), side,
      h("table", { className: `worked joined ${known ? "" : "bare"}` }, h("caption", {}, `Layer ${place.layer}: all heads for `, h("b", {}, h("bdi", {}, word))),
        h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col", className: name === "length" ? "" : "left" }, name)))), h("tbody", {}, rows), known && h("tfoot", {}, this.#sums(most > 0))));
    const first = this.scroll.querySelector("td[data-what]");
    if (first) first.tabIndex = 0;
    this.note.textContent = known ? "" : this.#missing();
    this.note.hidden = known;
  }

  /** Why W_O is not here. */
  #missing() {
    const { place } = /** @type {Frame} */ (this.frame);
    if (!place.keyNorms(0)) return "W_O was not found in this model's structure, so what a head writes cannot be told.";
    const kept = this.store.data.placesOf(place.mode).filter(({ arrays }) => "output_weight" in arrays).map(({ layer }) => layer);
    const where = kept.length ? `it is here for layer${kept.length > 1 ? "s" : ""} ${kept.join(", ")}. ` : "";
    return `W_O of this layer was left out to keep the file small; ${where}Write the page with --layers ${place.layer} to have it. The lengths are exact.`;
  }

  /** @param {boolean} measured */
  #sums(measured) {
    const { place } = /** @type {Frame} */ (this.frame);
    const { output_bias: bias } = place.arrays;
    const lines = [
      bias && ["bias", "bias of W_O", bias.values],
      this.rest && this.parts.length < place.header.of && ["rest", `the ${place.header.of - this.parts.length} heads that are not in this page`, this.rest],
      this.result && ["result", "Z_f, the sum: what leaves the layer", this.result],
    ];
    return lines.flatMap((line) => {
      if (!line) return [];
      const [what, name, numbers] = /** @type {[string, string, Float64Array]} */ (line);
      return [h("tr", { className: what }, h("th", { scope: "row", colSpan: 3 }, name), this.#cell(what, 0, strip(numbers, typical([numbers]), name, "long")),
        measured && h("td", { className: "length" }, number(norm(numbers))))];
    });
  }

  /** The block of W_O that belongs to a head. @param {number} at */
  #block(at) {
    const { place } = /** @type {Frame} */ (this.frame);
    const { values, shape } = place.arrays.output_weight;
    const block = values.subarray(at * shape[1] * shape[2], (at + 1) * shape[1] * shape[2]);
    const canvas = picture(block, shape[2], typical([block]));
    canvas.className = "block";
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `W_O of head ${place.heads[at]}, ${shape[1]} rows and ${shape[2]} columns`);
    return canvas;
  }

  /** How much a head wrote; where it comes from can be shown where W_O is here. @param {Part} part @param {number} most */
  #length({ at, length, written }, most) {
    const bar = h("span", { className: "bar", style: { "--share": String((length ?? 0) / most) } });
    const content = [bar, h("span", { className: "figure" }, number(length ?? 0))];
    return written ? this.#cell("length", at, content) : h("td", { className: "length" }, content);
  }

  /** @param {string} what @param {number} at @param {Node | Node[]} content */
  #cell(what, at, content) {
    return h("td", { className: what, tabIndex: -1, data: { what, key: String(at) } }, content);
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    const cell = /** @type {HTMLElement | null} */ (target.closest("td[data-what]"));
    if (!cell) return;
    const canvas = target.closest("canvas");
    this.#open({ what: /** @type {string} */ (cell.dataset.what), at: Number(cell.dataset.key), element: canvas ? indexAt(canvas, event) : 0 });
  }

  /** @param {{what: string, at: number, element: number}} cell */
  #open(cell) {
    this.cell = cell;
    this.closed = false;
    this.#show(cell);
  }

  /** @param {{what: string, at: number, element: number} | null} cell */
  #show(cell) {
    this.shown = cell;
    const origin = cell && this.#origin(cell);
    this.provenance.show(origin);
    for (const one of this.scroll.querySelectorAll("td[data-what]")) {
      one.classList.toggle("chosen", cell !== null && origin !== null && one.dataset.what === cell.what && Number(one.dataset.key) === cell.at);
    }
  }

  /** @param {{what: string, at: number, element: number}} cell @returns {Origin | null} */
  #origin({ what, at, element }) {
    const { place } = /** @type {Frame} */ (this.frame);
    const part = this.parts[at];
    const { output_weight: weight, output_bias: bias } = place.arrays;
    if (!part) return null;
    if (what === "z") return vector(`z of head ${part.head}`, "z", part.z, "The sum of weight·v of this head, as in the worked table.");
    if (!weight || !part.written) return null;
    const [, rows, dim] = weight.shape;
    const column = Math.min(element, dim - 1);
    const factor = (/** @type {number} */ row) => weight.values[(at * rows + row) * dim + column];
    if (what === "bias" && bias) return vector("bias of W_O", "b", bias.values, "Added once, after all heads.");
    if (what === "rest" && this.rest) return vector("other heads", "r", this.rest, "The layer's output minus the heads shown and the bias.");
    if (what === "result" && this.result) return this.#resultOrigin(column, bias?.values[column] ?? 0);
    if (what === "length") {
      return {
        title: `How much head ${part.head} wrote`,
        lead: "The length of z · W_O: the root of the sum of the squares of its numbers.",
        names: ["i", "(z · W_O)ᵢ", "its square"],
        rows: Array.from(part.written, (one, at) => [at, one, one * one]),
        result: norm(part.written),
        sum: "√ Σ (z · W_O)ᵢ²",
      };
    }
    return {
      title: `(z · W_O)[${column}] of head ${part.head}`,
      lead: "Each number of z times the number of W_O in its row and this column, all added.",
      names: ["i", "zᵢ", `W_O[i, ${column}]`, "product"],
      rows: Array.from(part.z, (one, row) => [row, one, factor(row), one * factor(row)]),
      result: part.written[column],
      sum: `Σ zᵢ · W_O[i, ${column}]`,
      element: { at: column, count: dim },
    };
  }

  /** @param {number} column @param {number} bias @returns {Origin} */
  #resultOrigin(column, bias) {
    const result = /** @type {Float64Array} */ (this.result);
    const rows = this.parts.map(({ head, written }) => [`head ${head}`, /** @type {Float64Array} */ (written)[column]]);
    const rest = this.rest && this.parts.length < (this.frame?.place.header.of ?? 0) ? [["other heads", this.rest[column]]] : [];
    return {
      title: `Z_f[${column}]`,
      lead: "What every head wrote at this place, and the bias, all added.",
      names: ["from", "number"],
      rows: [...rows, ...rest, ["bias", bias]],
      result: result[column],
      sum: "sum",
      element: { at: column, count: result.length },
    };
  }

  /** @returns {boolean} whether something was open */
  closeCell() {
    const open = this.cell !== null;
    const back = /** @type {HTMLElement | null} */ (this.scroll.querySelector(".chosen"));
    const inside = this.provenance.element.contains(document.activeElement);
    this.cell = null;
    this.closed = true;
    this.#show(null);
    if (inside) back?.focus();
    return open;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const cell = /** @type {HTMLElement} */ (event.target);
    if (!cell.matches?.("td[data-what]") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#open({ what: /** @type {string} */ (cell.dataset.what), at: Number(cell.dataset.key), element: 0 });
      return;
    }
    const rows = [...this.scroll.querySelectorAll("tbody tr, tfoot tr")].map((row) => [...row.querySelectorAll("td[data-what]")]);
    const row = rows.findIndex((cells) => cells.includes(cell));
    const column = rows[row].indexOf(cell);
    const target = { ArrowUp: rows[row - 1]?.[Math.min(column, rows[row - 1].length - 1)], ArrowDown: rows[row + 1]?.[Math.min(column, rows[row + 1].length - 1)],
      ArrowLeft: rows[row][column - 1], ArrowRight: rows[row][column + 1] }[event.key];
    if (!target) return;
    event.preventDefault();
    cell.tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
  }

  /** Every vector, whole. */
  csv() {
    const rows = this.parts.flatMap(({ head, z, written, length }) => [[`z of head ${head}`, length ?? "", ...Array.from(z)], ...(written ? [[`z·W_O of head ${head}`, length ?? "", ...written]] : [])]);
    const bias = this.frame?.place.arrays.output_bias;
    const all = [...rows, ...(bias ? [["bias", "", ...bias.values]] : []), ...(this.result ? [["Z_f", norm(this.result), ...this.result]] : [])];
    const widest = Math.max(...all.map((row) => row.length));
    const names = Array.from({ length: widest - 2 }, (_, at) => at);
    return [["vector", "length", ...names], ...all.map((row) => [...row, ...new Array(widest - row.length).fill("")])];
  }

  /** @param {import("./paint.js").Painter} paint */
  export(paint) {
    exportTable(paint, this.scroll);
  }
}
