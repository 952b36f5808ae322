/** The bar that stays in view: which mode, layer, head and word. */

import { choice, fill, stepper } from "./dom.js";
import { shown } from "./units.js";

/** @typedef {import("./main.js").Frame} Frame */

const MODES = /** @type {Record<string, string>} */ ({ encoder: "Encoder", decoder: "Decoder", cross: "Cross" });

export class Controls {
  /** @param {HTMLElement} element @param {import("./state.js").Store} store */
  constructor(element, store) {
    this.store = store;
    const { modes } = store.data;
    this.mode = choice("Attention", modes.map((value) => ({ value, text: MODES[value] })), (mode) => store.set({ mode }));
    this.mode.element.hidden = modes.length < 2;
    this.layer = stepper("Layer", (layer) => store.set({ layer }));
    this.head = stepper("Head", (head) => store.set({ head }));
    this.word = stepper("Word", (token) => store.set({ token }));
    fill(element, this.mode.element, this.layer.element, this.head.element, this.word.element);
  }

  /** @param {Frame} frame */
  update({ state, rows }) {
    const places = this.store.data.placesOf(state.mode);
    this.mode.show(state.mode);
    this.layer.show(places.map(({ layer }) => ({ value: layer, text: String(layer) })), state.layer);
    const heads = places.find(({ layer }) => layer === state.layer)?.heads ?? [];
    this.head.show(heads.map((head) => ({ value: head, text: String(head) })), state.head);
    const own = rows.find(({ tokens }) => tokens.includes(state.token));
    this.word.show(rows.map(({ tokens, label }) => ({ value: tokens[0], text: shown(label) })), own ? own.tokens[0] : state.token);
  }
}
