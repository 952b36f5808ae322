/** What is chosen, kept in the address of the page, so that a link restores the view. */

/** @typedef {import("./data.js").Data} Data */
/** @typedef {{mode: string, layer: number, head: number, token: number, target: number, units: "words" | "tokens",
 *   direction: "from" | "to", average: boolean, lens: "looked" | "wrote" | "scores", sort: string,
 *   picture: "pattern" | "word", step: number, numbers: boolean}} State */

export const STEPS = ["embedding", "q, k, v", "q·k", "÷√d", "bias and mask", "softmax", "weight·v", "z"];

/** @type {Record<string, readonly string[]>} */
const CHOICES = {
  units: ["words", "tokens"],
  direction: ["from", "to"],
  lens: ["looked", "wrote", "scores"],
  sort: ["layer", "first", "self", "previous", "next", "same", "far", "wrote"],
  picture: ["pattern", "word"],
};

export class Store {
  /** @param {Data} data @param {string} address what stands after # */
  constructor(data, address) {
    this.data = data;
    /** @type {((changed: Set<string>) => void)[]} */
    this.listeners = [];
    const { focus } = data.header;
    this.opening = this.#valid({
      mode: focus.mode ?? data.modes[data.modes.length - 1],
      layer: focus.layer ?? 0,
      head: focus.head ?? 0,
      token: focus.token ?? 0,
      target: 0,
      units: "words",
      direction: "from",
      average: false,
      lens: "looked",
      sort: "layer",
      picture: "pattern",
      step: STEPS.length - 1,
      numbers: false,
    });
    this.state = this.#valid({ ...this.opening, ...this.#read(address) });
  }

  /** @param {Partial<State>} change */
  set(change) {
    const before = this.state;
    const after = this.#valid({ ...before, ...change });
    const names = /** @type {(keyof State)[]} */ (Object.keys(after)).filter((name) => before[name] !== after[name]);
    if (!names.length) return;
    this.state = after;
    for (const listener of this.listeners) listener(new Set(names));
  }

  /** What the address says: only what differs from how the page opens. */
  get address() {
    const { state, opening, data } = this;
    const parts = new URLSearchParams();
    if (data.modes.length > 1) parts.set("mode", state.mode);
    parts.set("layer", String(state.layer));
    parts.set("head", String(state.head));
    const words = data.placesOf(state.mode).length ? this.#words(state.mode) : [];
    const word = words.findIndex((tokens) => tokens.includes(state.token));
    const first = state.units === "words" && word >= 0 && words[word][0] === state.token;
    if (first) parts.set("word", String(word));
    else parts.set("token", String(state.token));
    for (const name of /** @type {(keyof State)[]} */ (["target", "units", "direction", "lens", "sort", "picture", "step"])) {
      if (state[name] !== opening[name]) parts.set(name, String(state[name]));
    }
    for (const name of /** @type {("average" | "numbers")[]} */ (["average", "numbers"])) {
      if (state[name]) parts.set(name, "yes");
    }
    return parts.toString();
  }

  /** @param {string} address */
  restore(address) {
    if (address.includes("=")) this.set({ ...this.opening, ...this.#read(address) });
  }

  /** @param {string} mode */
  #words(mode) {
    return this.data.header.streams[mode === "encoder" ? "encoder" : "decoder"].words;
  }

  /** @param {string} address @returns {Partial<State>} */
  #read(address) {
    const parts = new URLSearchParams(address);
    /** @type {Record<string, any>} */
    const found = {};
    for (const name of ["layer", "head", "token", "target", "step"]) {
      const text = parts.get(name);
      if (text !== null && /^\d{1,6}$/.test(text)) found[name] = Number(text);
    }
    for (const [name, allowed] of Object.entries(CHOICES)) {
      const text = parts.get(name);
      if (text !== null && allowed.includes(text)) found[name] = text;
    }
    for (const name of ["average", "numbers"]) if (parts.get(name) === "yes") found[name] = true;
    const mode = parts.get("mode");
    if (mode !== null && this.data.modes.includes(mode)) found.mode = mode;
    const word = parts.get("word");
    const tokens = word !== null && /^\d{1,6}$/.test(word) ? this.#words(found.mode ?? this.opening.mode)[Number(word)] : null;
    if (tokens) found.token = tokens[0];
    return found;
  }

  /** Every value within what the page holds. @param {State} state @returns {State} */
  #valid(state) {
    const { data } = this;
    const places = data.placesOf(state.mode);
    const place = places.find(({ layer }) => layer === state.layer) ?? nearest(places, state.layer);
    const heads = place.heads;
    const head = heads.includes(state.head) ? state.head : heads[Math.min(heads.length - 1, Math.max(0, state.head))];
    const queries = place.arrays.query.shape[1];
    const keys = place.arrays.key.shape[1];
    const offset = state.mode === "cross" ? 0 : keys - queries;
    const token = Math.max(offset, Math.min(offset + queries - 1, state.token));
    const target = Math.max(0, Math.min(keys - 1, state.target));
    const wrote = "key_norms" in place.arrays;
    const lens = state.lens === "wrote" && !wrote ? "looked" : state.lens;
    const step = Math.max(0, Math.min(STEPS.length - 1, state.step));
    return { ...state, layer: place.layer, head, token, target, lens, step };
  }
}

/** @param {import("./data.js").PlaceHeader[]} places @param {number} layer */
function nearest(places, layer) {
  return places.reduce((best, one) => (Math.abs(one.layer - layer) < Math.abs(best.layer - layer) ? one : best));
}
