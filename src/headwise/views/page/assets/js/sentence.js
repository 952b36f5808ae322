/** The sentence: from the chosen word, lines to the words it looks at, or from those that look at it. */

import { choice, fill, h, number, rove, svg } from "./dom.js";
import { ink, ramps, share } from "./colour.js";
import { chosenUnit, weightsOfUnit } from "./look.js";
import { directionOf, shown } from "./units.js";

/** @typedef {import("./main.js").Frame} Frame */
/** @typedef {import("./units.js").Unit} Unit */
/** @typedef {{unit: Unit, side: "rows" | "columns" | "both", at: number, element: HTMLElement}} Word */

const MOST_LINES = 24;
const LEAST_WEIGHT = 0.015;
const LABELLED = 5;

export class Sentence {
  /** @param {HTMLElement} element @param {import("./state.js").Store} store @param {import("./reading.js").Reading} reading */
  constructor(element, store, reading) {
    this.store = store;
    this.reading = reading;
    this.direction = choice("Direction", [
      { value: "from", text: "Looks at" },
      { value: "to", text: "Is looked at by" },
    ], (direction) => store.set({ direction: /** @type {"from" | "to"} */ (direction) }));
    this.average = choice("Heads", [
      { value: false, text: "This head" },
      { value: true, text: "Mean of the layer" },
    ], (average) => store.set({ average }));
    this.units = choice("Units", [
      { value: "words", text: "Words" },
      { value: "tokens", text: "Tokens" },
    ], (units) => store.set({ units: /** @type {"words" | "tokens"} */ (units) }));
    this.lines = svg("svg", { class: "lines", "aria-hidden": "true" });
    this.texts = h("div", { className: "texts" });
    this.inner = h("div", { className: "inner" }, this.lines, this.texts);
    this.stage = h("div", { className: "stage" }, this.inner);
    this.note = h("p", { className: "note" });
    fill(element, h("div", { className: "bar" }, this.direction.element, this.average.element, this.units.element), this.stage, this.note);
    /** @type {Word[]} */
    this.words = [];
    /** @type {Word | null} */
    this.hovered = null;
    /** @type {HTMLElement[]} */
    this.tinted = [];
    this.built = "";
    this.#listen();
  }

  #listen() {
    this.stage.addEventListener("pointerover", (/** @type {PointerEvent} */ event) => {
      const word = this.#wordOf(event.target);
      if (word && event.pointerType !== "touch") this.#preview(word);
      if (word) measureFrame(event.timeStamp);
    });
    this.stage.addEventListener("pointerleave", () => this.#preview(null));
    this.stage.addEventListener("focusin", (/** @type {FocusEvent} */ event) => this.#preview(this.#wordOf(event.target)));
    this.stage.addEventListener("focusout", () => this.#preview(null));
    this.stage.addEventListener("click", (/** @type {Event} */ event) => {
      const word = this.#wordOf(event.target);
      if (word) this.#choose(word);
    });
    this.stage.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(this.stage);
  }

  /** @param {EventTarget | null} target */
  #wordOf(target) {
    const element = target instanceof Element ? target.closest("button.word") : null;
    return element ? this.words[Number(/** @type {HTMLElement} */ (element).dataset.at)] : null;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const word = this.#wordOf(event.target);
    if (!word || event.altKey || event.ctrlKey || event.metaKey) return;
    const rightToLeft = getComputedStyle(/** @type {Element} */ (word.element.parentElement)).direction === "rtl";
    const key = rightToLeft ? { ArrowLeft: "ArrowRight", ArrowRight: "ArrowLeft" }[event.key] ?? event.key : event.key;
    const at = this.words.indexOf(word);
    const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: this.words.length - 1 }[key] ?? this.#beside(word, key);
    if (next === null || !this.words[next]) return;
    event.preventDefault();
    this.#reach(next);
    this.words[next].element.focus();
  }

  /** The word above or below. @param {{element: HTMLElement}} word @param {string} key */
  #beside(word, key) {
    if (key !== "ArrowUp" && key !== "ArrowDown") return null;
    const own = word.element.getBoundingClientRect();
    const middle = own.left + own.width / 2;
    let best = null;
    let least = Infinity;
    this.words.forEach(({ element }, at) => {
      const box = element.getBoundingClientRect();
      const lines = key === "ArrowUp" ? own.top - box.top : box.top - own.top;
      if (lines < own.height / 2) return;
      const distance = lines * 1000 + Math.abs(box.left + box.width / 2 - middle);
      if (distance < least) [best, least] = [at, distance];
    });
    return best;
  }

  /** @param {number} at */
  #reach(at) {
    rove(this.words.map(({ element }) => element), at);
  }

  /** @param {Word | null} word */
  #preview(word) {
    this.hovered = word && this.#canAsk(word) ? word : null;
    this.#draw();
  }

  /** Whether lines can start at this word in the direction chosen. @param {{side: string}} word */
  #canAsk(word) {
    return word.side === "both" || word.side === (this.frame?.state.direction === "to" ? "columns" : "rows");
  }

  /** @param {{unit: Unit, side: string}} word */
  #choose(word) {
    const token = word.unit.tokens[0];
    if (word.side === "columns") this.store.set({ target: token, direction: "to" });
    else if (word.side === "rows") this.store.set({ token, direction: "from" });
    else this.store.set({ token });
  }

  /** @param {Frame} frame */
  update(frame) {
    this.frame = frame;
    const { state, place } = frame;
    this.direction.show(state.direction);
    this.average.show(state.average);
    this.units.show(state.units);
    const key = `${place.mode} ${place.queries} ${place.keys} ${state.units}`;
    if (key !== this.built) this.#build(frame);
    this.built = key;
    const chosen = this.#chosen();
    this.words.forEach((word) => word.element.setAttribute("aria-pressed", String(word === chosen)));
    this.#reach(chosen ? this.words.indexOf(chosen) : 0);
    const merged = state.units === "words" && frame.rows.some(({ tokens }) => tokens.length > 1);
    fill(this.note, merged ? "A word of several tokens is merged: mean over its queries, sum over its keys." : "");
    this.note.hidden = !merged;
    this.#draw();
  }

  /** @param {Frame} frame */
  #build(frame) {
    const { place, rows, columns } = frame;
    this.words = [];
    const apart = place.mode === "cross" || place.offset > 0;
    const parts = apart
      ? [this.#paragraph(rows, place.looking, "rows", "Looks"), this.#paragraph(columns, place.lookedAt, "columns", "Is looked at")]
      : [this.#paragraph(columns, place.lookedAt, "both", "")];
    this.stage.classList.toggle("long", this.words.length > 60);
    this.stage.classList.toggle("apart", apart);
    fill(this.texts, parts);
  }

  /** @param {Unit[]} units @param {import("./data.js").Stream} stream @param {"rows" | "columns" | "both"} side
   *  @param {string} label */
  #paragraph(units, stream, side, label) {
    const text = units.map((unit) => (unit.special ? "" : unit.label)).join(" ");
    const element = h("p", { className: "sentence", dir: directionOf(text) });
    let end = 0;
    units.forEach((unit, at) => {
      if (unit.start >= 0) {
        const gap = (stream.text ?? "").slice(end, unit.start);
        const spaced = /^\s/.test((stream.text ?? "").slice(unit.start, unit.end));
        const apart = gap || spaced || units[at - 1]?.special;
        element.append(gap.trim() ? gap : apart ? " " : "");
        end = Math.max(end, unit.end);
      } else if (at) element.append(" ");
      element.append(this.#word(unit, side, at));
    });
    if (!label) return element;
    return h("div", { className: "side" }, h("p", { className: "caption" }, label), element);
  }

  /** @param {Unit} unit @param {"rows" | "columns" | "both"} side @param {number} at */
  #word(unit, side, at) {
    const element = h("button", {
      type: "button",
      className: `word${unit.special ? " special" : ""}${unit.written ? " written" : ""}`,
      data: { at: String(this.words.length) },
      title: unit.written ? "The model wrote this" : undefined,
    }, h("bdi", {}, shown(unit.label)));
    this.words.push({ unit, side, at, element });
    return element;
  }

  #chosen() {
    const frame = /** @type {Frame} */ (this.frame);
    const unit = chosenUnit(frame);
    const side = frame.state.direction === "to" ? "columns" : "rows";
    return this.words.find((word) => (word.side === "both" || word.side === side) && word.unit.tokens[0] === unit.tokens[0]);
  }

  #draw() {
    if (!this.frame) return;
    const word = this.hovered ?? this.#chosen();
    if (!word) return;
    const weights = weightsOfUnit(this.reading, this.frame, word.unit);
    const others = this.words.filter(({ side }) => side === "both" || side === (this.frame?.state.direction === "to" ? "rows" : "columns"));
    const order = Array.from(weights, (_, at) => at).filter((at) => weights[at] >= LEAST_WEIGHT).sort((a, b) => weights[b] - weights[a]);
    this.#tint(others, weights, order);
    const box = this.inner.getBoundingClientRect();
    const thick = this.words.length > 60 ? 4 : 9;
    this.lines.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    const from = word.element.getBoundingClientRect();
    this.lines.replaceChildren(...order.slice(0, MOST_LINES).reverse().flatMap((at) => {
      const other = others[at]?.element;
      return other && other !== word.element ? [line(from, other.getBoundingClientRect(), box, weights[at], thick)] : [];
    }));
    for (const one of this.words) one.element.classList.toggle("asked", one === word);
  }

  /** @param {{element: HTMLElement}[]} others @param {ArrayLike<number>} weights @param {number[]} order */
  #tint(others, weights, order) {
    const { sequential } = ramps();
    for (const element of this.tinted) {
      element.style.backgroundColor = element.style.color = "";
      delete element.dataset.weight;
    }
    this.tinted = order.flatMap((at) => (others[at] ? [others[at].element] : []));
    order.forEach((at, place) => {
      const element = others[at]?.element;
      if (!element) return;
      const depth = share(weights[at], 1) * 0.85;
      element.style.backgroundColor = sequential.at(depth);
      element.style.color = sequential.isDark(depth) ? "#fff" : "#000";
      if (place < LABELLED) element.dataset.weight = number(weights[at], 2);
    });
  }

  /** The weights that the lines stand for. */
  csv() {
    const word = this.#chosen();
    if (!word || !this.frame) return [];
    const { rows, columns, state } = this.frame;
    const others = state.direction === "to" ? rows : columns;
    const weights = weightsOfUnit(this.reading, this.frame, word.unit);
    return [["word", state.direction === "to" ? "looks at" : "is looked at by", "weight"], ...others.map(({ label }, at) => [label, word.unit.label, weights[at]])];
  }

  /** The picture for export. @param {import("./paint.js").Painter} paint */
  export(paint) {
    const box = this.inner.getBoundingClientRect();
    paint.size(box.width, box.height);
    for (const { element } of this.words) {
      const own = element.getBoundingClientRect();
      const style = getComputedStyle(element);
      const [x, y] = [own.left - box.left, own.top - box.top];
      if (element.style.backgroundColor) paint.rect(x, y, own.width, own.height, element.style.backgroundColor);
      const size = parseFloat(style.fontSize);
      paint.text(element.textContent ?? "", x + own.width / 2, y + own.height / 2, { size, fill: style.color, align: "center", serif: !element.classList.contains("special") });
      if (element.classList.contains("asked")) paint.frame(x, y, own.width, own.height, ink("query"), 2);
      if (element.dataset.weight) {
        paint.text(element.dataset.weight, x + own.width / 2, y + own.height + 8, { size: 11, align: "center" });
      }
    }
    for (const path of this.lines.children) {
      paint.path(path.getAttribute("d") ?? "", getComputedStyle(path).stroke, Number(path.getAttribute("stroke-width")), Number(path.getAttribute("opacity")));
    }
  }
}

/** From an event until the frame that shows what it led to has been painted; benchmarks/page.py reads it. @param {number} start */
function measureFrame(start) {
  requestAnimationFrame(() => setTimeout(() => performance.measure("headwise hover", { start })));
}

/** A line between two words: an arc over one line of text, a bow between two.
 * @param {DOMRect} from @param {DOMRect} to @param {DOMRect} box @param {number} weight @param {number} thick */
function line(from, to, box, weight, thick) {
  const [x1, x2] = [from, to].map((one) => one.left + one.width / 2 - box.left);
  const same = Math.abs(from.top - to.top) < from.height / 2;
  const down = to.top > from.top;
  const y1 = (down && !same ? from.bottom : from.top) - box.top;
  const y2 = (down || same ? to.top : to.bottom) - box.top;
  const rise = same ? Math.min(64, 14 + Math.abs(x2 - x1) * 0.16) : 0;
  const path = same
    ? `M${x1} ${y1}C${x1} ${y1 - rise} ${x2} ${y2 - rise} ${x2} ${y2}`
    : `M${x1} ${y1}C${x1} ${(y1 + y2) / 2} ${x2} ${(y1 + y2) / 2} ${x2} ${y2}`;
  return svg("path", { d: path, "stroke-width": (1 + thick * weight).toFixed(2), opacity: (0.25 + 0.65 * Math.sqrt(weight)).toFixed(2) });
}
