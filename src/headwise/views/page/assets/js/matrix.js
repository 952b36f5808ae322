/** One head: the whole matrix on a canvas, through three lenses, with zoom. */

import { CanvasPainter } from "./paint.js";
import { choice, fill, h, number, percent, stepBy } from "./dom.js";
import { drawMatrix, layOut, scaleFor } from "./matrixdrawing.js";
import { shown, unitAt } from "./units.js";

/** @typedef {import("./main.js").Frame} Frame */
/** @typedef {import("./reading.js").Lens} Lens */

const HINT = "Point at a cell to read it; click to open the word.";

export class Matrix {
  /** @param {HTMLElement} element @param {import("./state.js").Store} store @param {import("./reading.js").Reading} reading
   *  @param {(key: number) => void} pick opens the provenance of the weight of a key */
  constructor(element, store, reading, pick) {
    this.store = store;
    this.reading = reading;
    this.pick = pick;
    this.zoom = 1;
    this.left = this.top = 0;
    /** @type {{row: number, column: number} | null} */
    this.cell = null;
    /** @type {{row: number, column: number} | null} */
    this.cursor = null;
    this.lens = choice("Lens", [
      { value: "looked", text: "Looked", title: "The weight" },
      { value: "wrote", text: "Wrote", title: "Weight times the length of what the value writes through W_O" },
      { value: "scores", text: "Scores", title: "Before the softmax" },
    ], (lens) => store.set({ lens: /** @type {Lens} */ (lens) }));
    const button = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) =>
      h("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    const zoom = h("div", { className: "choice", role: "group", "aria-label": "Zoom" },
      button("−", "Zoom out", () => this.#zoomBy(1 / 1.6)), button("+", "Zoom in", () => this.#zoomBy(1.6)), button("Fit", "Show all", () => this.#fit()));
    this.canvas = h("canvas", { tabIndex: 0, role: "application", "aria-roledescription": "attention matrix", "aria-describedby": "matrix-help" });
    this.said = h("p", { className: "said" });
    this.legend = h("div", { className: "legend" });
    this.note = h("p", { className: "note" });
    this.table = h("div", { className: "scroll" });
    this.details = h("details", {}, h("summary", {}, "The chosen word's row as a table"), this.table);
    const help = h("p", { id: "matrix-help", className: "hidden" }, "Arrow keys move, Enter opens the word, plus and minus zoom, 0 shows all.");
    fill(element, h("div", { className: "bar" }, this.lens.element, zoom, this.legend), h("div", { className: "canvas" }, this.canvas), this.said, this.note, this.details, help);
    this.#listen();
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.#move(event));
    canvas.addEventListener("pointerleave", () => this.#point(null));
    canvas.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      this.drag = { x: event.clientX, y: event.clientY, left: this.left, top: this.top, moved: false };
      if (this.zoom > 1) canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => {
      if (this.drag && !this.drag.moved) this.#choose(this.#cellAt(event));
      this.drag = null;
    });
    canvas.addEventListener("wheel", (/** @type {WheelEvent} */ event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.#zoomBy(Math.exp(-event.deltaY / 200), event);
    }, { passive: false });
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
    canvas.addEventListener("focus", () => this.#point(this.cursor ?? this.#selected()));
    canvas.addEventListener("blur", () => this.#point(null));
    this.details.addEventListener("toggle", () => this.#tabulate());
    new ResizeObserver(() => this.#draw()).observe(/** @type {Element} */ (canvas.parentElement));
  }

  /** @param {Frame} frame @param {Set<string>} changed */
  update(frame, changed) {
    this.frame = frame;
    const { state, place, head } = frame;
    if (["mode", "units"].some((name) => changed.has(name))) this.#reset();
    const known = place.keyNorms(head) !== null;
    this.lens.show(state.lens);
    this.lens.buttons[1].disabled = !known;
    this.grid = this.reading.grid(place, head, state.lens, state.units);
    this.received = this.reading.received(place, head, state.units);
    this.scale = scaleFor(this.grid.values, state.lens);
    this.canvas.setAttribute("aria-label", `Layer ${state.layer}, head ${state.head}: ${this.grid.rows.length} rows that look, ${this.grid.columns.length} columns`);
    fill(this.legend, this.#legend(state.lens));
    fill(this.note, this.#sinks(), this.#explained(state.lens));
    this.said.textContent = this.cell ? this.#say(this.cell) : HINT;
    this.#draw();
    this.#tabulate();
  }

  #reset() {
    this.zoom = 1;
    this.left = this.top = 0;
    this.cursor = this.cell = null;
  }

  /** @param {Lens} lens */
  #legend(lens) {
    const { scale } = this;
    if (!scale) return null;
    const bar = h("canvas", { width: 64, height: 1, "aria-hidden": "true" });
    const paint = bar.getContext("2d");
    for (let at = 0; at < 64; at++) {
      paint.fillStyle = scale.colour(scale.from + ((scale.to - scale.from) * at) / 63);
      paint.fillRect(at, 0, 1, 1);
    }
    const name = { looked: "weight", wrote: "weight · ‖v W_O‖", scores: "score" }[lens];
    return [h("span", {}, number(scale.from, lens === "scores" ? 1 : 0)), bar, h("span", {}, number(scale.to, lens === "looked" ? 0 : 1)), h("span", { className: "what" }, name)];
  }

  #sinks() {
    const { received, grid } = this;
    if (!received || !grid || !received.sinks.length) return null;
    return h("span", {}, received.sinks.map((key) => {
      const share = /** @type {Float64Array} */ (received.written)[key];
      return h("span", { className: "sink" }, "◆ ", h("bdi", {}, shown(grid.columns[key].label)), `: ${percent(received.looked[key])} of the weight goes here, but it writes ` +
        (share < 0.1 ? `almost nothing (${percent(share)}). ` : `only ${percent(share)} of all. `));
    }));
  }

  /** @param {Lens} lens */
  #explained(lens) {
    const merged = this.grid?.rows.some(({ tokens }) => tokens.length > 1) && this.frame?.state.units === "words";
    const text = { looked: "", wrote: "How much each word adds through this head: weight times the length of its value after W_O. ",
      scores: `q·k ÷ √d, with bias, before the softmax.${merged ? " Words of several tokens show the mean." : ""} ` }[lens];
    const { place } = /** @type {Frame} */ (this.frame);
    return text + (place.masked ? "Hatched: masked, may not be seen." : "");
  }

  #draw() {
    if (!this.frame || !this.grid || !this.scale) return;
    const width = /** @type {HTMLElement} */ (this.canvas.parentElement).clientWidth;
    if (!width) return;
    this.layout = layOut(this.grid, width, this);
    [this.left, this.top] = [this.layout.left, this.layout.top];
    this.#drawOn(new CanvasPainter(this.canvas, width, this.layout.height));
  }

  /** @param {import("./paint.js").Painter} paint */
  #drawOn(paint) {
    if (!this.grid || !this.layout || !this.scale || !this.received) return;
    drawMatrix(paint, { grid: this.grid, layout: this.layout, scale: this.scale, received: this.received, chosen: this.#selected().row, cell: this.cell ?? null });
  }

  /** @param {import("./paint.js").Painter} paint */
  export(paint) {
    if (!this.layout) return;
    paint.size(this.layout.width, this.layout.height);
    this.#drawOn(paint);
  }

  #selected() {
    const { state, rows, columns } = /** @type {Frame} */ (this.frame);
    return { row: Math.max(0, unitAt(rows, state.token)), column: Math.max(0, unitAt(columns, state.target)) };
  }

  /** @param {MouseEvent} event */
  #cellAt(event) {
    const { layout, grid } = this;
    if (!layout || !grid) return null;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - layout.x, event.clientY - box.top - layout.y];
    const [column, row] = [Math.floor((x + layout.left) / layout.cell), Math.floor((y + layout.top) / layout.cell)];
    const inside = x < layout.shownWidth && y < layout.shownHeight && y >= 0 && row < grid.rows.length && column < grid.columns.length;
    return inside && row >= 0 && (column >= 0 || x < 0) ? { row, column: x < 0 ? -1 : column } : null;
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const { drag } = this;
    if (drag && this.zoom > 1 && event.buttons) {
      const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
      if (Math.abs(x) + Math.abs(y) > 4) drag.moved = true;
      [this.left, this.top] = [drag.left - x, drag.top - y];
      this.#draw();
      return;
    }
    const cell = this.#cellAt(event);
    this.#point(cell && cell.column >= 0 ? cell : null);
  }

  /** @param {{row: number, column: number} | null} cell */
  #point(cell) {
    if (cell?.row === this.cell?.row && cell?.column === this.cell?.column) return;
    this.cell = cell;
    if (this.frame) this.said.textContent = cell ? this.#say(cell) : HINT;
    this.#draw();
  }

  /** @param {{row: number, column: number}} cell */
  #say({ row, column }) {
    const { grid } = this;
    const { state, place, head } = /** @type {Frame} */ (this.frame);
    if (!grid || !grid.rows[row] || !grid.columns[column]) return "";
    const value = grid.values[row * grid.columns.length + column];
    const [from, to] = [shown(grid.rows[row].label), shown(grid.columns[column].label)];
    if (grid.masked(row, column)) return `${from} may not see ${to} (masked)`;
    if (state.lens === "scores") return `${from} → ${to}: score ${number(value)}`;
    const wrote = place.keyNorms(head) ? this.reading.grid(place, head, "wrote", state.units).values[row * grid.columns.length + column] : null;
    const weight = this.reading.grid(place, head, "looked", state.units).values[row * grid.columns.length + column];
    return `${from} looks at ${to} with ${number(weight)}${wrote === null ? "" : ` and takes ${number(wrote)} of writing from it`}`;
  }

  /** @param {{row: number, column: number} | null} cell */
  #choose(cell) {
    if (!cell || !this.grid) return;
    const token = this.grid.rows[cell.row].tokens[0];
    const target = cell.column >= 0 ? this.grid.columns[cell.column].tokens[0] : undefined;
    this.store.set(target === undefined ? { token } : { token, target });
    if (target !== undefined) this.pick(target);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { grid } = this;
    if (!grid || event.altKey || event.ctrlKey || event.metaKey) return;
    const acts = /** @type {Record<string, () => void>} */ ({ "+": () => this.#zoomBy(1.6), "=": () => this.#zoomBy(1.6), "-": () => this.#zoomBy(1 / 1.6), 0: () => this.#fit() });
    if (event.key in acts) {
      event.preventDefault();
      acts[event.key]();
      return;
    }
    const cell = this.cell ?? this.#selected();
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#choose(cell);
      return;
    }
    const columns = grid.columns.length;
    const next = stepBy(event.key, cell.row * columns + cell.column, columns, grid.values.length);
    if (next === null) return;
    event.preventDefault();
    const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
    if (sideways && Math.floor(next / columns) !== cell.row) return;
    this.cursor = { row: Math.floor(next / columns), column: next % columns };
    this.#bring(this.cursor);
    this.#point(this.cursor);
    this.frame?.announce(this.#say(this.cursor));
  }

  /** Scroll the zoomed matrix so that a cell is in view. @param {{row: number, column: number}} cell */
  #bring({ row, column }) {
    const { layout } = this;
    if (!layout) return;
    const into = (/** @type {number} */ start, /** @type {number} */ at, /** @type {number} */ size) =>
      Math.max(at + layout.cell - size, Math.min(start, at));
    this.left = into(this.left, column * layout.cell, layout.shownWidth);
    this.top = into(this.top, row * layout.cell, layout.shownHeight);
  }

  /** @param {number} factor @param {MouseEvent} [event] what stays in place */
  #zoomBy(factor, event) {
    const { layout } = this;
    if (!layout) return;
    const box = this.canvas.getBoundingClientRect();
    const x = event ? event.clientX - box.left - layout.x : layout.shownWidth / 2;
    const y = event ? event.clientY - box.top - layout.y : layout.shownHeight / 2;
    const before = this.zoom;
    this.zoom = Math.max(1, Math.min(layout.mostZoom, this.zoom * factor));
    const change = this.zoom / before;
    [this.left, this.top] = [(this.left + x) * change - x, (this.top + y) * change - y];
    this.#draw();
  }

  #fit() {
    this.zoom = 1;
    this.left = this.top = 0;
    this.#draw();
  }

  /** A real table, for those who read by ear. */
  #tabulate() {
    if (!this.details.open || !this.grid || !this.frame) return;
    const { grid } = this;
    const { row } = this.#selected();
    const { state } = this.frame;
    const cells = grid.columns.map((unit, column) => h("tr", {}, h("th", { scope: "row" }, h("bdi", {}, unit.label)),
      h("td", {}, grid.masked(row, column) ? "masked" : number(grid.values[row * grid.columns.length + column], 4))));
    fill(this.table, h("table", {}, h("caption", {}, `Layer ${state.layer}, head ${state.head}, ${grid.rows[row].label}: ${this.lens.buttons.find((one) => one.ariaPressed === "true")?.textContent ?? ""}`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Word"), h("th", { scope: "col" }, "Value"))), h("tbody", {}, cells)));
  }

  /** The whole matrix as shown. */
  csv() {
    const { grid } = this;
    if (!grid) return [];
    const width = grid.columns.length;
    return [["", ...grid.columns.map(({ label }) => label)],
      ...grid.rows.map(({ label }, row) => [label, ...Array.from(grid.values.subarray(row * width, (row + 1) * width), (value, column) => (grid.masked(row, column) ? "" : value))])];
  }
}
