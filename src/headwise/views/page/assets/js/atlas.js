/** The atlas as a page: one choice of relation, head, lens, sentence and word, and the views that show it. */

import { onTheme, ramps, share } from "./colour.js";
import { decode } from "./decode.js";
import { choice, fill, h, number, percent, rove, stepBy } from "./dom.js";

/** @typedef {{accuracy: number, low: number, high: number}} Scored */
/** @typedef {{relation: string, way: number, direction: string, pairs: number, documents: number, verdict: string, layer: number | null,
 *   head: number | null, lens: string | null, stability: number | null, held_out: Scored | null, controls: Record<string, Scored> | null,
 *   rules: Record<string, string> | null, best_control: string | null, gain: Scored | null, chance: number | null}} Row */
/** @typedef {{where: string, words: string[], cases: [number, number, number[]][]}} Example */
/** @typedef {{title: string, about: Record<string, any>, rows: Row[], relations: Record<string, {about: string}>, measures: string[],
 *   profiles: Record<string, number>[], examples: Example[], arrays: Record<string, any>}} Header */

/** @typedef {{example: number, words: string[], source: number, right: number[], answer: number, hit: boolean}} Case */

const VERDICTS = /** @type {Record<string, string>} */ ({
  reads: "Reads it: better than every control.",
  position: "More than position, but not better than the nearest word of the right kind.",
  no: "Not better than the controls.",
  few: "Too few pairs to say.",
});
const LENSES = ["weight", "wrote"];

/** @param {string} id @returns {any} */
const part = (id) => document.getElementById(id);
/** @param {string} id @returns {any} */
const body = (id) => document.querySelector(`#${id} .body`);

class Atlas {
  /** @param {Header} header @param {Record<string, any>} arrays */
  constructor(header, arrays) {
    this.header = header;
    this.arrays = arrays;
    this.heads = header.profiles.length;
    this.per = header.about.heads;
    const first = Math.max(0, header.rows.findIndex(({ layer }) => layer !== null));
    const known = header.rows[first];
    this.row = first;
    this.head = known.layer === null || known.head === null ? 0 : known.layer * this.per + known.head;
    this.lens = 0;
    this.example = -1;
    this.word = 0;
    /** @type {HTMLButtonElement[]} */
    this.cells = [];
    this.starts = this.#offsets();
    this.lenses = choice("By", LENSES.map((text, value) => ({ value, text: value ? "by what it wrote" : "by weight" })), (lens) => this.set({ lens }));
    fill(part("controls"), this.lenses.element);
    fill(part("about"), this.#about());
    this.#grid();
    this.set({});
    onTheme(() => this.set({}));
  }

  /** Where each sentence's answers and looks begin. */
  #offsets() {
    let answers = 0;
    let looks = 0;
    return this.header.examples.map(({ words, cases }) => {
      const start = { answers, looks };
      answers += cases.length * this.heads * LENSES.length;
      looks += this.heads * words.length ** 2;
      return start;
    });
  }

  #about() {
    const { model, sentences, documents, words, unaligned } = this.header.about;
    const left = unaligned ? ` ${unaligned} sentences could not be aligned.` : "";
    return `${model.source ?? model.architecture}: ${sentences} sentences, ${documents} documents, ${words} words.${left} Each cell is a share of right answers over all documents; the head that the halves chose is underlined.`;
  }

  /** @param {number} row @param {number} head */
  accuracy(row, head) {
    return this.arrays.accuracy[(row * this.heads + head) * LENSES.length + this.lens];
  }

  /** @param {number} head */
  name(head) {
    return `${Math.floor(head / this.per)}.${head % this.per}`;
  }

  #grid() {
    const { rows } = this.header;
    const lines = Array.from({ length: this.heads }, (_, head) => h("tr", {},
      h("th", { scope: "row" }, this.name(head)),
      rows.map((_, row) => {
        const at = head * rows.length + row;
        const cell = h("button", { type: "button", className: "cell", onclick: () => this.set({ row, head, example: -1 }), onkeydown: (/** @type {KeyboardEvent} */ event) => this.#walk(event, at) });
        this.cells.push(cell);
        return h("td", {}, cell);
      })));
    const names = rows.map(({ relation, direction }) => h("th", { scope: "col" }, h("span", {}, `${relation} ${direction}`)));
    fill(body("grid"), h("table", { className: "atlas" }, h("thead", {}, h("tr", {}, h("th", {}, "head"), names)), h("tbody", {}, lines)));
  }

  /** @param {KeyboardEvent} event @param {number} at */
  #walk(event, at) {
    const next = stepBy(event.key, at, this.header.rows.length, this.cells.length);
    if (next === null) return;
    event.preventDefault();
    rove(this.cells, next);
    this.cells[next].focus();
  }

  /** @param {Partial<{row: number, head: number, lens: number, example: number, word: number}>} change */
  set(change) {
    Object.assign(this, change);
    this.lenses.show(this.lens);
    this.#colour();
    this.#finding();
    this.#profile();
    const all = this.cases();
    if (this.example < 0 && all.length) this.#point((all.find(({ hit }) => hit) ?? all[0]));
    this.#examples(all);
    this.#sentence();
    const { relation, direction } = this.header.rows[this.row];
    part("live").textContent = `${relation} ${direction}, head ${this.name(this.head)}`;
  }

  #colour() {
    const { rows } = this.header;
    const ramp = ramps().sequential;
    this.cells.forEach((cell, at) => {
      const row = at % rows.length;
      const head = Math.floor(at / rows.length);
      const value = this.accuracy(row, head);
      const few = rows[row].verdict === "few";
      const best = !few && rows[row].layer === Math.floor(head / this.per) && rows[row].head === head % this.per;
      cell.textContent = few ? "–" : String(Math.round(100 * value));
      cell.classList.toggle("best", best);
      cell.style.setProperty("background", ramp.at(few ? 0 : value));
      cell.style.setProperty("color", ramp.isDark(few ? 0 : value) ? "#fff" : "#000");
      cell.setAttribute("aria-pressed", String(row === this.row && head === this.head));
      cell.setAttribute("aria-label", `${rows[row].relation} ${rows[row].direction}, head ${this.name(head)}: ${few ? "too few pairs" : percent(value)}`);
    });
    rove(this.cells, this.head * rows.length + this.row);
  }

  #finding() {
    const row = this.header.rows[this.row];
    const about = this.header.relations[row.relation].about;
    part("finding-title").textContent = `${row.relation}: ${row.direction}`;
    const told = h("p", { className: "note" }, `${about}; ${row.pairs} pairs in ${row.documents} documents.`);
    const verdict = h("p", { className: "verdict" }, VERDICTS[row.verdict]);
    if (!row.held_out || !row.controls || !row.gain || !row.rules) return fill(body("finding"), verdict, told);
    const line = (/** @type {string} */ name, /** @type {Scored} */ { accuracy, low, high }) =>
      h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, `${number(100 * accuracy, 1)} %`), h("td", {}, `${number(100 * low, 1)} to ${number(100 * high, 1)}`));
    const rules = row.rules;
    fill(body("finding"), verdict, h("table", { className: "numbers" }, h("tbody", {},
      line(`best head ${row.layer}.${row.head}, by ${row.lens}, on the other half`, row.held_out),
      Object.entries(row.controls).map(([name, scored]) => line(rules[name] ?? (name === "random" ? "random weights" : "shuffled pairs"), scored)),
      line(`gain over the best control`, row.gain))),
    h("p", { className: "note" }, `Chosen by ${percent(row.stability ?? 0)} of the halves; chance that the best of so many heads wins by luck: ${number(row.chance ?? 1, 4)}.`), told);
  }

  #profile() {
    const profile = this.header.profiles[this.head];
    part("profile-title").textContent = `Head ${this.name(this.head)}`;
    const most = (/** @type {string} */ name) => (["entropy", "knockout"].includes(name) ? Math.max(...this.header.profiles.map((one) => Math.abs(one[name]))) : 1);
    const lines = this.header.measures.filter((name) => name in profile).map((name) => {
      const drawn = h("span", { className: "drawn" });
      drawn.style.setProperty("width", `${Math.max(0, Math.min(100, (100 * Math.abs(profile[name])) / (most(name) || 1)))}%`);
      const label = name === "knockout" ? `without it: ${this.header.about.knockout}` : name;
      return h("tr", {}, h("th", { scope: "row" }, label), h("td", {}, number(profile[name], 3)), h("td", { className: "wide" }, drawn));
    });
    fill(body("profile"), h("table", { className: "numbers" }, h("tbody", {}, lines)));
  }

  /** The questions of this relation, with this head's answers. @returns {Case[]} */
  cases() {
    return this.header.examples.flatMap(({ words, cases }, example) => cases.flatMap(([row, source, right], at) => {
      if (row !== this.row) return [];
      const answer = this.arrays.answers[this.starts[example].answers + (at * this.heads + this.head) * LENSES.length + this.lens];
      return [{ example, words, source, right, answer, hit: right.includes(answer) }];
    }));
  }

  /** @param {{example: number, source: number}} one */
  #point({ example, source }) {
    this.example = example;
    this.word = source;
  }

  /** @param {Case[]} all */
  #examples(all) {
    const list = (/** @type {string} */ title, /** @type {boolean} */ wanted) => {
      const own = all.filter(({ hit }) => hit === wanted);
      return h("div", {}, h("h3", {}, `${title} (${own.length})`), h("ul", {}, own.slice(0, 12).map((one) => h("li", {}, this.#one(one)))));
    };
    const none = all.length ? null : h("p", { className: "note" }, "No sentence of the examples has this relation.");
    fill(body("examples"), none, h("div", { className: "two" }, list("Right", true), list("Wrong", false)));
  }

  /** @param {Case} one */
  #one({ example, words, source, right, answer, hit }) {
    const shown = words.map((word, at) => {
      if (at === source) return h("b", {}, word);
      if (right.includes(at)) return h("span", { className: "right" }, word);
      return at === answer && !hit ? h("span", { className: "wrong" }, word) : word;
    });
    const parts = shown.flatMap((word, at) => (at ? [" ", word] : [word]));
    const open = () => {
      this.set({ example, word: source });
      part("sentence").scrollIntoView({ block: "nearest" });
    };
    const told = `from ${words[source]}, ${hit ? "right" : "wrong"}: ${words[answer]}; wanted: ${right.map((at) => words[at]).join(", ")}`;
    const pressed = example === this.example && source === this.word;
    return h("button", { type: "button", className: "example", title: told, "aria-pressed": String(pressed), onclick: open }, parts);
  }

  #sentence() {
    part("sentence").hidden = this.example < 0;
    if (this.example < 0) return;
    const { words, where } = this.header.examples[this.example];
    const start = this.starts[this.example].looks + (this.head * words.length + this.word) * words.length;
    const ramp = ramps().sequential;
    part("said").textContent = `Head ${this.name(this.head)} from “${words[this.word]}”, by weight (${where}); what is missing to 1 goes to special tokens. Choose another word to look from it.`;
    /** @type {HTMLElement[]} */
    const buttons = words.map((word, at) => {
      const weight = this.arrays.looks[start + at] / 255;
      const button = h("button", { type: "button", className: "word", "aria-pressed": String(at === this.word), "aria-label": `${word}: ${number(weight, 2)}`, onclick: () => this.#from(at), onkeydown: (/** @type {KeyboardEvent} */ event) => {
        const next = stepBy(event.key, at, words.length, words.length);
        if (next !== null) {
          event.preventDefault();
          rove(buttons, next);
          buttons[next].focus();
        }
      } }, word, h("small", {}, number(weight, 2)));
      button.style.setProperty("background", ramp.at(share(weight, 1)));
      button.style.setProperty("color", ramp.isDark(share(weight, 1)) ? "#fff" : "#000");
      return button;
    });
    rove(buttons, this.word);
    fill(body("sentence"), buttons);
  }

  /** @param {number} word */
  #from(word) {
    this.set({ word });
    /** @type {any} */ (body("sentence").children[word])?.focus();
  }
}

async function open() {
  const header = /** @type {Header} */ (JSON.parse(part("header").textContent));
  /** @type {Record<string, any>} */
  const arrays = {};
  for (const [name, kind] of Object.entries(header.arrays)) {
    const empty = kind.shape.some((/** @type {number} */ size) => size === 0);
    arrays[name] = empty ? new Uint8Array(0) : await decode(part(`block-${kind.block}`).textContent, kind);
  }
  new Atlas(header, arrays);
  document.documentElement.dataset.ready = "";
}

open().catch((error) => {
  fill(part("main"), h("p", { className: "failed" }, `The page cannot be shown: ${error.message}`));
  document.documentElement.dataset.ready = "";
});
