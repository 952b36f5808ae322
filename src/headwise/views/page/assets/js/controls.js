/** The bar that stays in view: which mode, layer, head and word. */

import { choice, fill, h } from "./dom.js";
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
    this.layer = this.#stepper("Layer", (layer) => store.set({ layer }));
    this.head = this.#stepper("Head", (head) => store.set({ head }));
    this.word = this.#stepper("Word", (token) => store.set({ token }));
    fill(element, this.mode.element, this.layer.element, this.head.element, this.word.element);
  }

  /** A list to choose from, with a step back and a step on. @param {string} name @param {(value: number) => void} choose */
  #stepper(name, choose) {
    const select = h("select", { "aria-label": name, onchange: () => choose(Number(select.value)) });
    const walk = (/** @type {number} */ by) => () => {
      const option = select.options[select.selectedIndex + by];
      if (option) choose(Number(option.value));
    };
    const back = h("button", { type: "button", "aria-label": `Previous ${name.toLowerCase()}`, onclick: walk(-1) }, "‹");
    const next = h("button", { type: "button", "aria-label": `Next ${name.toLowerCase()}`, onclick: walk(1) }, "›");
    let shown = "";
    return {
      element: h("div", { className: `stepper of-${name.toLowerCase()}` }, h("span", { className: "name", "aria-hidden": "true" }, name), back, select, next),
      /** @param {{value: number, text: string}[]} options @param {number} value */
      show(options, value) {
        const key = JSON.stringify(options);
        if (key !== shown) fill(select, options.map((one) => h("option", { value: String(one.value) }, one.text)));
        shown = key;
        select.value = String(value);
        back.disabled = select.selectedIndex <= 0;
        next.disabled = select.selectedIndex >= options.length - 1;
      },
    };
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
