/** Puts the page together: one state, one frame of derived values, and the views that show it. */

import { Controls } from "./controls.js";
import { onPaper, onTheme } from "./colour.js";
import { readDocument } from "./data.js";
import { fill, h } from "./dom.js";
import { Heads } from "./heads.js";
import { Joined } from "./joined.js";
import { sentenceOf } from "./look.js";
import { Matrix } from "./matrix.js";
import { Proof } from "./proof.js";
import { Reading } from "./reading.js";
import { copyText, showReceipt } from "./receipt.js";
import { saveCsv, saveSvg } from "./save.js";
import { Sentence } from "./sentence.js";
import { Store } from "./state.js";
import { Readout } from "./strip.js";
import { Table } from "./table.js";
import { shown } from "./units.js";

/** What all views show at one moment.
 * @typedef {{state: import("./state.js").State, place: import("./data.js").Place, head: number,
 *   rows: import("./units.js").Unit[], columns: import("./units.js").Unit[], word: string,
 *   parts: {text: string, word?: boolean}[], said: string,
 *   announce: (text: string) => void}} Frame */

const EVERYTHING = ["mode", "layer", "head", "token", "target", "units", "direction", "average", "lens", "sort", "picture", "step", "numbers", "theme"];
const ORDER = ["sentence", "heads", "matrix", "table", "joined", "receipt"];

/** Hebrew, Arabic, Indic and East Asian scripts, which have no slanted letters. */
const UPRIGHT = /[\u0590-\u0dff\u0e00-\u109f\u1100-\u11ff\u1780-\u17ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\ufb1d-\ufdff\ufe70-\uffef]/;

class Page {
  /** @param {import("./data.js").Data} data */
  constructor(data) {
    this.data = data;
    this.reading = new Reading();
    this.store = new Store(data, location.hash.slice(1));
    this.live = part("live");
    this.said = "";
    const readout = new Readout();
    this.controls = new Controls(part("controls"), this.store);
    this.views = {
      sentence: new Sentence(body("sentence"), this.store, this.reading),
      heads: new Heads(body("heads"), this.store, this.reading),
      matrix: new Matrix(body("matrix"), this.store, this.reading, (key) => this.views.table.point(key)),
      table: new Table(body("table"), this.store, this.reading, readout),
      joined: new Joined(body("joined"), this.store, this.reading, readout),
    };
    this.proof = new Proof(part("proof"), data.header);
    showReceipt(body("receipt"), data.header);
    this.#exports();
    const link = part("link");
    // Inside a notebook the page has no address of its own.
    link.hidden = location.protocol === "about:";
    link.addEventListener("click", () => copyText(location.href.split("#")[0] + "#" + this.store.address, link));
    this.store.listeners.push((changed) => this.show(changed));
    const redraw = () => void this.show(new Set(EVERYTHING));
    onTheme(redraw);
    addEventListener("beforeprint", () => onPaper(true, redraw));
    addEventListener("afterprint", () => onPaper(false, redraw));
    addEventListener("hashchange", () => this.store.restore(location.hash.slice(1)));
    document.addEventListener("keydown", (event) => this.#escape(event));
  }

  /** @param {Set<string>} changed */
  async show(changed) {
    this.changed = new Set([...(this.changed ?? []), ...changed]);
    const { mode, layer } = this.store.state;
    const header = /** @type {import("./data.js").PlaceHeader} */ (this.data.find(mode, layer));
    const place = this.data.ready.get(header) ?? await this.data.open(header);
    if (this.data.find(this.store.state.mode, this.store.state.layer) !== header || !this.changed.size) return;
    const all = this.changed;
    this.changed = new Set();
    const frame = this.#frame(place);
    this.controls.update(frame);
    fill(part("said"), frame.parts.map(({ text, word }) => (word ? h("em", { className: UPRIGHT.test(text) ? "upright" : "" }, h("bdi", {}, text)) : text)));
    for (const view of Object.values(this.views)) view.update(frame, all);
    this.#remember();
    if (this.said !== frame.said) frame.announce(frame.said);
    this.said = frame.said;
  }

  /** @param {import("./data.js").Place} place @returns {Frame} */
  #frame(place) {
    const { state } = this.store;
    const head = place.heads.indexOf(state.head);
    const { rows, columns } = this.reading.units(place, state.units);
    const unit = rows.find(({ tokens }) => tokens.includes(state.token)) ?? rows[0];
    const word = shown(unit.label);
    const parts = sentenceOf(this.reading, { state, place, head, rows, columns });
    const said = parts.map(({ text }) => text).join("");
    return { state, place, head, rows, columns, word, parts, said, announce: (text) => (this.live.textContent = text) };
  }

  /** The address follows, where the page has one. */
  #remember() {
    try {
      history.replaceState(null, "", `#${this.store.address}`);
    } catch {
      // A frame without an address of its own cannot be linked to.
    }
  }

  #exports() {
    for (const [name, view] of Object.entries(this.views)) {
      const { layer, head } = this.store.state;
      const title = () => `headwise-${name}-${this.store.state.mode}-layer${this.store.state.layer ?? layer}-head${this.store.state.head ?? head}`;
      const asSvg = () => {
        onPaper(true, () => void this.show(new Set(["theme"])));
        saveSvg(view, title());
        onPaper(false, () => void this.show(new Set(["theme"])));
      };
      const tools = /** @type {HTMLElement} */ (document.querySelector(`#${name} .tools`));
      fill(tools, h("button", { type: "button", "aria-label": `Save ${name} as SVG`, onclick: asSvg }, "SVG"),
        h("button", { type: "button", "aria-label": `Save ${name} as CSV`, onclick: () => saveCsv(view.csv(), title()) }, "CSV"));
    }
  }

  /** Escape closes what is open, and then goes up one view. @param {KeyboardEvent} event */
  #escape(event) {
    if (event.key !== "Escape") return;
    const { table, joined } = this.views;
    const at = document.activeElement?.closest("section")?.id ?? "";
    if (at === "joined" ? joined.closeCell() || table.closeCell() : table.closeCell() || joined.closeCell()) return;
    const up = ORDER[ORDER.indexOf(at) - 1];
    if (up) /** @type {HTMLElement | null} */ (document.querySelector(`#${up} .body [tabindex="0"]`))?.focus();
  }
}

/** @param {string} id @returns {any} */
function part(id) {
  return document.getElementById(id);
}

/** @param {string} section @returns {any} */
function body(section) {
  return document.querySelector(`#${section} .body`);
}

const page = new Page(readDocument(document));
page.show(new Set(EVERYTHING)).then(() => requestAnimationFrame(() => {
  performance.mark("headwise drawn");
  document.documentElement.dataset.ready = "yes";
}), (error) => {
  part("said").textContent = `This page cannot be shown: ${error.message}`;
  throw error;
});
