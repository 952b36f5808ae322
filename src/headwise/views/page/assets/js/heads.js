/** All heads: a small picture of each, by layer or sorted by how it looks and how much it wrote. */

import { scoresOf, weightsOf } from "./attention.js";
import { ink, masked, ramps, share } from "./colour.js";
import { choice, fill, h, number, percent, rove, stepBy } from "./dom.js";
import { KINDS, kindsOf, meanWritten, sharesOf } from "./kinds.js";
import { merge, mergeRow, shown } from "./units.js";

/** @typedef {import("./main.js").Frame} Frame */
/** @typedef {import("./data.js").Place} Place */
/** @typedef {{place: Place, at: number, layer: number, head: number, shares: number[], wrote: number | null, pooled: Float32Array,
 *   width: number, height: number}} Head */

const PICTURE = 48;
const TELLING = 0.4;
const FIRMEST = 10;

export class Heads {
  /** @param {HTMLElement} element @param {import("./state.js").Store} store @param {import("./reading.js").Reading} reading */
  constructor(element, store, reading) {
    this.store = store;
    this.reading = reading;
    this.sort = choice("Order", [
      { value: "layer", text: "Layer × head" },
      ...KINDS.map(({ name, sign, label }) => ({ value: name, text: `${sign} ${label}` })),
      { value: "wrote", text: "Wrote most" },
    ], (sort) => store.set({ sort }));
    this.sort.element.classList.add("wrap");
    this.picture = choice("Show", [
      { value: "pattern", text: "Whole pattern" },
      { value: "word", text: "The chosen word" },
    ], (picture) => store.set({ picture: /** @type {"pattern" | "word"} */ (picture) }));
    this.area = h("div", { className: "heads" });
    this.note = h("p", { className: "note" });
    this.firmest = h("div", { className: "firmest" });
    fill(element, h("div", { className: "bar" }, this.picture.element), h("div", { className: "bar" }, this.sort.element), this.area, this.note, this.firmest);
    /** @type {Map<string, Head>} */
    this.known = new Map();
    this.mode = "";
    /** @type {Uint8Array | null} */
    this.kinds = null;
    /** @type {{key: string, pooled: Float32Array} | null} */
    this.seen = null;
    /** @type {HTMLElement[]} */
    this.buttons = [];
    this.area.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
  }

  /** @param {Frame} frame @param {Set<string>} changed */
  update(frame, changed) {
    this.frame = frame;
    const { state } = frame;
    this.sort.show(state.sort);
    this.picture.show(state.picture);
    if (this.mode !== state.mode) {
      this.mode = state.mode;
      this.#study(state.mode);
    }
    const word = state.picture === "word" && (changed.has("token") || changed.has("units"));
    const all = ["mode", "sort", "picture", "theme"].some((name) => changed.has(name));
    if (all || word || !this.buttons.length) this.#build();
    if (["mode", "token", "units"].some((name) => changed.has(name))) this.#rank();
    this.#mark();
  }

  /** Compute the pictures of all heads, a few at a time, so that the page stays quick. @param {string} mode */
  async #study(mode) {
    this.kinds = null;
    let rest = performance.now();
    for (const header of this.store.data.placesOf(mode)) {
      const place = await this.store.data.open(header);
      const { rows, columns } = this.reading.units(place, "words");
      this.kinds ??= kindsOf(rows, columns, mode);
      for (let at = 0; at < place.heads.length; at++) {
        if (this.mode !== mode) return;
        const name = `${mode} ${place.layer} ${place.heads[at]}`;
        if (!this.known.has(name)) this.known.set(name, this.#look(place, at));
        if (performance.now() - rest > 12) {
          await new Promise((resume) => setTimeout(resume));
          rest = performance.now();
        }
      }
      if (this.frame?.state.sort === "layer") this.#paintLayer(place.layer);
    }
    this.complete = mode;
    if (this.frame && this.mode === mode) {
      if (this.frame.state.sort !== "layer" || this.frame.state.picture === "word") this.#build();
      this.#rank();
      this.#mark();
    }
  }

  /** @param {Place} place @param {number} at @returns {Head} */
  #look(place, at) {
    const weights = weightsOf(place, scoresOf(place, at));
    const [width, height] = [Math.min(PICTURE, place.keys), Math.min(PICTURE, place.queries)];
    const { rows, columns } = this.reading.units(place, "words");
    const merged = merge(weights, place.keys, rows.map(({ tokens }) => tokens.map((token) => token - place.offset)), columns.map(({ tokens }) => tokens), "sum");
    const shares = sharesOf(rows, merged, /** @type {Uint8Array} */ (this.kinds));
    const pooled = pool(weights, place.queries, place.keys, width, height);
    if (place.masked) shade(pooled, this.#visible(place, at, width, height));
    return { place, at, layer: place.layer, head: place.heads[at], shares, wrote: meanWritten(place, at), pooled, width, height };
  }

  /** One for the parts in which anything may be seen; the same for all heads, unless a mask names heads.
   * @param {Place} place @param {number} at @param {number} width @param {number} height */
  #visible(place, at, width, height) {
    const own = "allowed" in place.arrays ? at : 0;
    const key = `${place.mode} ${place.layer} ${own}`;
    if (this.seen?.key !== key) {
      const seen = new Float32Array(place.queries * place.keys);
      for (let to = 0; to < seen.length; to++) seen[to] = place.allows(at, Math.floor(to / place.keys), to % place.keys) ? 1 : 0;
      this.seen = { key, pooled: pool(seen, place.queries, place.keys, width, height) };
    }
    return this.seen.pooled;
  }

  /** @param {number} layer @param {number} head @returns {Head | undefined} */
  #head(layer, head) {
    return this.known.get(`${this.mode} ${layer} ${head}`);
  }

  #build() {
    const { state } = /** @type {Frame} */ (this.frame);
    const places = this.store.data.placesOf(state.mode);
    const sorted = state.sort !== "layer";
    const columns = Math.max(...places.map(({ heads }) => heads.length));
    this.area.classList.toggle("sorted", sorted);
    this.area.classList.toggle("words", state.picture === "word");
    this.area.style.setProperty("--columns", String(columns));
    const most = places.flatMap(({ layer, heads }) => heads.map((head) => this.#head(layer, head)?.wrote ?? 0))
      .reduce((one, other) => Math.max(one, other), 0);
    const all = places.flatMap(({ layer, heads }) => heads.map((head) => this.#button(layer, head, most)));
    if (sorted) all.sort((a, b) => b.value - a.value);
    this.buttons = all.map(({ button }) => button);
    this.columns = sorted ? 1 : columns;
    const head = h("div", { className: "row names", "aria-hidden": "true" }, h("span", {}), places[0].heads.map((one) => h("span", {}, String(one))));
    const rows = places.map(({ layer, heads }) => h("div", { className: "row" }, h("span", { className: "name", "aria-hidden": "true" }, `L${layer}`),
      heads.map(() => all.shift()?.button)));
    fill(this.area, sorted ? this.buttons : [head, ...rows]);
    this.note.textContent = noteFor(state);
  }

  /** @param {number} layer @param {number} head @param {number} most the largest mean length written */
  #button(layer, head, most) {
    const { state } = /** @type {Frame} */ (this.frame);
    const known = this.#head(layer, head);
    const button = h("button", { type: "button", className: "head", data: { layer: String(layer), head: String(head) },
      onclick: () => this.store.set({ layer, head }) });
    const value = known ? valueOf(known, state.sort) : -1;
    if (known) this.#paint(button, known);
    if (state.sort !== "layer" && known) {
      const text = state.sort === "wrote" ? number(value, 2) : percent(value);
      const bar = h("span", { className: "meter", style: { "--share": String(state.sort === "wrote" ? value / (most || 1) : value) } });
      button.append(h("span", { className: "amount" }, h("b", {}, `L${layer} H${head}`), h("span", {}, text)), bar);
    }
    return { button, value };
  }

  /** @param {HTMLElement} button @param {Head} known */
  #paint(button, known) {
    const { state } = /** @type {Frame} */ (this.frame);
    const { kind, text } = tellingKind(known);
    let said = text;
    if (state.picture === "word") {
      const top = this.#topFor(known);
      said = `${top.label} ${number(top.weight, 2)}`;
      const depth = share(top.weight, 1) * 0.9;
      const { sequential } = ramps();
      const cell = h("span", { className: "best", style: { "background-color": sequential.at(depth), color: sequential.isDark(depth) ? "#fff" : "#000" } },
        h("bdi", {}, top.label), h("small", {}, number(top.weight, 2)));
      fill(button, cell);
    } else {
      fill(button, thumbnail(known), kind && h("span", { className: "sign", "aria-hidden": "true" }, kind.sign));
    }
    button.setAttribute("aria-label", `Layer ${known.layer}, head ${known.head}: ${said}`);
    button.title = `Layer ${known.layer}, head ${known.head}: ${said}`;
  }

  /** The heads in which the chosen word looks most firmly at another word. */
  #rank() {
    if (this.complete !== this.mode || !this.frame) return;
    const { word, place } = this.frame;
    const all = [...this.known.values()].filter((known) => known.place.mode === this.mode)
      .map((known) => ({ known, top: this.#topFor(known, true) })).filter(({ top }) => top.weight > 0.01);
    all.sort((a, b) => b.top.weight - a.top.weight);
    const items = all.slice(0, FIRMEST).map(({ known: { layer, head }, top }) =>
      h("li", {}, h("button", { type: "button", onclick: () => this.store.set({ layer, head }) }, h("b", {}, `L${layer} H${head}`), h("bdi", {}, top.label),
        h("span", { className: "meter", style: { "--share": String(top.weight) } }), h("span", { className: "weight" }, number(top.weight, 2)))));
    fill(this.firmest, h("h3", {}, "Where ", h("bdi", { className: "quoted" }, word), place.mode === "cross" ? " looks most firmly" : " looks most firmly at another word"), h("ol", {}, items));
    this.firmest.hidden = !items.length;
  }

  /** The unit that the chosen word looks at most in this head. @param {Head} known
   *  @param {boolean} [other] leave out the word itself, special tokens, punctuation and the first token, where heads rest */
  #topFor({ place, at }, other = false) {
    const { state } = /** @type {Frame} */ (this.frame);
    const { rows, columns } = this.reading.units(place, state.units);
    const row = rows.find(({ tokens }) => tokens.includes(state.token)) ?? rows[0];
    const weights = mergeRow(row.tokens.map((token) => this.reading.steps(place, at, token - place.offset).weights), columns.map(({ tokens }) => tokens), "sum");
    if (other) {
      columns.forEach((unit, one) => {
        const own = place.mode !== "cross" && (one === 0 || unit.tokens[0] === row.tokens[0]);
        if (own || unit.special || !/[\p{L}\p{N}]/u.test(unit.label)) weights[one] = 0;
      });
    }
    const best = weights.reduce((most, weight, one) => (weight > weights[most] ? one : most), 0);
    return { label: shown(columns[best].label), weight: weights[best] };
  }

  /** @param {number} layer */
  #paintLayer(layer) {
    for (const button of this.buttons) {
      const known = this.#head(layer, Number(button.dataset.head));
      if (Number(button.dataset.layer) === layer && known) this.#paint(button, known);
    }
  }

  #mark() {
    const { state } = /** @type {Frame} */ (this.frame);
    let current = 0;
    this.buttons.forEach((button, at) => {
      const own = Number(button.dataset.layer) === state.layer && Number(button.dataset.head) === state.head;
      button.setAttribute("aria-pressed", String(own));
      if (own) current = at;
    });
    rove(this.buttons, current);
    const [box, own] = [this.area.getBoundingClientRect(), this.buttons[current].getBoundingClientRect()];
    if (own.bottom > box.bottom || own.top < box.top + 20) this.area.scrollTop += own.top - box.top - box.height / 2;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const at = this.buttons.indexOf(/** @type {HTMLElement} */ (event.target));
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const flat = this.area.classList.contains("sorted");
    const next = stepBy(event.key, at, flat ? columnsShown(this.buttons) : this.columns ?? 1, this.buttons.length);
    if (next === null) return;
    event.preventDefault();
    rove(this.buttons, next);
    this.buttons[next].focus();
  }

  /** The picture for export. @param {import("./paint.js").Painter} paint */
  export(paint) {
    const box = this.area.getBoundingClientRect();
    paint.size(this.area.scrollWidth, this.area.scrollHeight);
    for (const button of this.buttons) {
      const own = (button.querySelector("canvas, .best") ?? button).getBoundingClientRect();
      const [x, y] = [own.left - box.left + this.area.scrollLeft, own.top - box.top + this.area.scrollTop];
      const canvas = button.querySelector("canvas");
      if (canvas) paint.image(canvas, [0, 0, canvas.width, canvas.height], [x, y, own.width, own.height]);
      paint.frame(x, y, own.width, own.height, ink("line"));
      const label = button.querySelector(".amount, .best")?.textContent;
      if (label) paint.text(label, x + own.width / 2, canvas ? y + own.height + 9 : y + own.height / 2, { size: 10, align: "center" });
      if (button.getAttribute("aria-pressed") === "true") paint.frame(x, y, own.width, own.height, ink("key"), 2);
    }
    for (const name of this.area.querySelectorAll(".names span, .name")) {
      const own = name.getBoundingClientRect();
      paint.text(name.textContent, own.left - box.left + own.width / 2 + this.area.scrollLeft, own.top - box.top + own.height / 2 + this.area.scrollTop, { size: 11, align: "center" });
    }
  }

  /** The shown numbers. */
  csv() {
    const head = ["layer", "head", ...KINDS.map(({ name }) => name), "near", "wrote"];
    const all = this.buttons.map(({ dataset }) => this.#head(Number(dataset.layer), Number(dataset.head)));
    return [head, ...all.flatMap((one) => (one ? [[one.layer, one.head, ...one.shares, one.wrote ?? ""]] : []))];
  }
}

/** @param {HTMLElement[]} buttons */
function columnsShown(buttons) {
  const top = buttons[0]?.offsetTop;
  const wrap = buttons.findIndex(({ offsetTop }) => offsetTop !== top);
  return wrap < 0 ? buttons.length : wrap;
}

/** @param {Head} known @param {string} sort */
function valueOf(known, sort) {
  if (sort === "wrote") return known.wrote ?? 0;
  const kind = KINDS.findIndex(({ name }) => name === sort);
  return kind < 0 ? 0 : known.shares[kind];
}

/** @param {Head} known */
function tellingKind({ shares }) {
  const best = KINDS.reduce((most, _, at) => (shares[at] > shares[most] ? at : most), 0);
  const kind = shares[best] >= TELLING && KINDS[best].name !== "far" ? KINDS[best] : null;
  return { kind, text: `${percent(shares[best])} to ${KINDS[best].label}` };
}

/** @param {import("./state.js").State} state */
function noteFor({ sort, picture }) {
  if (picture === "word") return "Each cell: what the chosen word looks at most in that head, and with what weight.";
  if (sort === "wrote") return "Mean length of what the head adds to the layer's output, ‖z·W_O‖.";
  if (sort !== "layer") return "Share of the weight that goes there: the mean over all words that look, but for special ones and the first.";
  return `Rows look at columns. A sign marks heads that spend at least ${percent(TELLING)} of their weight in one way.`;
}

/** The largest weight of each part of a matrix.
 * @param {Float32Array} weights @param {number} rows @param {number} columns @param {number} width @param {number} height */
function pool(weights, rows, columns, width, height) {
  const pooled = new Float32Array(width * height);
  for (let row = 0; row < rows; row++) {
    const to = Math.floor((row * height) / rows) * width;
    for (let column = 0; column < columns; column++) {
      const at = to + Math.floor((column * width) / columns);
      const weight = weights[row * columns + column];
      if (weight > pooled[at]) pooled[at] = weight;
    }
  }
  return pooled;
}

/** Mark what may not be seen by a number below nought. @param {Float32Array} pooled @param {Float32Array} visible */
function shade(pooled, visible) {
  for (let at = 0; at < pooled.length; at++) if (!visible[at]) pooled[at] = -1;
}

/** @param {Head} known */
function thumbnail({ pooled, width, height }) {
  const canvas = h("canvas", { width, height });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const { sequential } = ramps();
  for (let at = 0; at < pixels.length; at++) pixels[at] = pooled[at] < 0 ? masked() : sequential.words[sequential.index(share(pooled[at], 1))];
  context.putImageData(image, 0, 0);
  return canvas;
}
