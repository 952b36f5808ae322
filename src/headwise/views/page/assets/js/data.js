/** The data schema (docs/page.md): a header in JSON, and blocks of numbers that are read when a layer is opened. */

import { decode } from "./decode.js";

/** @typedef {{block: number, type: "float32" | "float16" | "uint8", shape: number[]}} ArrayHeader */
/** @typedef {{text: string | null, tokens: string[], offsets: [number, number][] | null, special: boolean[],
 *   words: number[][], written_from: number | null}} Stream */
/** @typedef {{mode: string, layer: number, heads: number[], of: number, shared: number[], scale: number, replaced: number[],
 *   causal: boolean, window: number | null, bias_zero: number | null, arrays: Record<string, ArrayHeader>,
 *   projected: Projected | null}} PlaceHeader */
/** @typedef {{head: number, rounding: string | null, error: number, allowed: number,
 *   norms: Record<string, {kind: string, epsilon: number}>}} Projected what made q, k and v of one head */
/** @typedef {{ok: boolean, worst: number, rows: {check: string, layer: string, error: number | null, allowed: number | null}[],
 *   stored: {kept: string[], errors: {what: string, error: number}[]}}} Receipt */
/** @typedef {{schema: string, title: string, streams: Record<string, Stream>, places: PlaceHeader[],
 *   model: Record<string, string>, receipt: Receipt, command: string | null,
 *   unprojected: string | null, focus: {mode?: string, layer?: number, head?: number, token?: number}}} Header */
/** @typedef {{values: Float32Array, shape: number[]}} Numbers */

/** One attention with its numbers. */
export class Place {
  /** @param {PlaceHeader} header @param {Record<string, Numbers>} arrays @param {Header} page */
  constructor(header, arrays, page) {
    this.header = header;
    this.arrays = arrays;
    this.page = page;
    this.mode = header.mode;
    this.layer = header.layer;
    this.heads = header.heads;
    this.queries = arrays.query.shape[1];
    this.keys = arrays.key.shape[1];
    this.dim = arrays.query.shape[2];
    this.valueDim = arrays.value.shape[2];
    const [looking, lookedAt] = streamsOf(page, header.mode);
    this.looking = looking;
    this.lookedAt = lookedAt;
    /** The position of the first query among the keys: not nought where a cache held earlier tokens. */
    this.offset = header.mode === "cross" ? 0 : this.keys - this.queries;
  }

  /** The vector of a query. @param {number} head a place among `heads` @param {number} at */
  query(head, at) {
    return row(this.arrays.query, head, at);
  }

  /** @param {number} head @param {number} at */
  key(head, at) {
    return row(this.arrays.key, this.header.shared[head], at);
  }

  /** @param {number} head @param {number} at */
  value(head, at) {
    return row(this.arrays.value, this.header.shared[head], at);
  }

  /** The embedding of a token of the stream that looks, where it is kept. @param {number} at */
  input(at) {
    const { input } = this.arrays;
    return input && at >= 0 && at < input.shape[0] ? input.values.subarray(at * input.shape[1], (at + 1) * input.shape[1]) : null;
  }

  /** What an edit put in the place of z, if it did. @param {number} head @param {number} at */
  replacedZ(head, at) {
    const place = this.header.replaced.indexOf(this.heads[head]);
    return place < 0 ? null : row(this.arrays.mixed, place, at);
  }

  /** ‖v W_O‖ of each key, where W_O is known. @param {number} head */
  keyNorms(head) {
    const norms = this.arrays.key_norms;
    return norms ? norms.values.subarray(head * this.keys, (head + 1) * this.keys) : null;
  }

  /** ‖z W_O‖ of each query, where W_O is known. @param {number} head */
  headNorms(head) {
    const norms = this.arrays.head_norms;
    return norms ? norms.values.subarray(head * this.queries, (head + 1) * this.queries) : null;
  }

  /** What the position adds to a score. @param {number} head @param {number} query @param {number} key */
  bias(head, query, key) {
    const { bias } = this.arrays;
    if (!bias) return 0;
    const own = bias.shape[0] > 1 ? head : 0;
    const zero = this.header.bias_zero;
    if (zero !== null) return bias.values[own * bias.shape[1] + key - query - this.keys + this.queries + zero];
    return bias.values[(own * bias.shape[1] + (bias.shape[1] > 1 ? query : 0)) * bias.shape[2] + key];
  }

  /** Whether a query may look at a key. @param {number} head @param {number} query @param {number} key */
  allows(head, query, key) {
    const { causal, window } = this.header;
    const here = query + this.keys - this.queries;
    if (causal && key > here) return false;
    if (window !== null && Math.abs(key - here) >= window) return false;
    const { documents, allowed } = this.arrays;
    if (documents && documents.values[here] !== documents.values[key]) return false;
    if (!allowed) return true;
    const [heads, queries, keys] = allowed.shape;
    return allowed.values[((heads > 1 ? head : 0) * queries + (queries > 1 ? query : 0)) * keys + key] > 0;
  }

  /** Whether anything is ever masked. */
  get masked() {
    const { causal, window } = this.header;
    return causal || window !== null || "documents" in this.arrays || "allowed" in this.arrays;
  }
}

/** @param {Numbers} numbers @param {number} first @param {number} second */
function row({ values, shape }, first, second) {
  const start = (first * shape[1] + second) * shape[2];
  return values.subarray(start, start + shape[2]);
}

/** The stream that looks and the one that is looked at. @param {Header} page @param {string} mode */
export function streamsOf(page, mode) {
  const looking = page.streams[mode === "encoder" ? "encoder" : "decoder"];
  return [looking, page.streams[mode === "decoder" ? "decoder" : "encoder"]];
}

/** The page's data; a block is read when its layer is first opened. */
export class Data {
  /** @param {Header} header @param {(block: number) => Promise<string> | string} read */
  constructor(header, read) {
    if (header.schema !== "headwise-page/1") throw new Error(`this page cannot show data of schema ${header.schema}`);
    this.header = header;
    this.read = read;
    /** @type {Map<PlaceHeader, Place>} */
    this.ready = new Map();
    /** @type {Map<PlaceHeader, Promise<Place>>} */
    this.coming = new Map();
    this.modes = ["encoder", "decoder", "cross"].filter((mode) => header.places.some((place) => place.mode === mode));
  }

  /** @param {string} mode */
  placesOf(mode) {
    return this.header.places.filter((place) => place.mode === mode);
  }

  /** @param {string} mode @param {number} layer */
  find(mode, layer) {
    return this.header.places.find((place) => place.mode === mode && place.layer === layer);
  }

  /** The place, read once. @param {PlaceHeader} header @returns {Promise<Place>} */
  open(header) {
    let place = this.coming.get(header);
    if (!place) {
      place = this.#load(header);
      this.coming.set(header, place);
    }
    return place;
  }

  /** @param {PlaceHeader} header */
  async #load(header) {
    /** @type {Record<string, Numbers>} */
    const arrays = {};
    const names = Object.keys(header.arrays);
    await Promise.all(names.map(async (name) => {
      const kind = header.arrays[name];
      const values = await decode(await this.read(kind.block), kind);
      arrays[name] = { values: values instanceof Float32Array ? values : Float32Array.from(values), shape: kind.shape };
    }));
    const place = new Place(header, arrays, this.header);
    this.ready.set(header, place);
    return place;
  }
}

/** The data that stands in the page itself. @param {Document} page */
export function readDocument(page) {
  const header = JSON.parse(page.getElementById("header")?.textContent ?? "{}");
  return new Data(header, (block) => page.getElementById(`block-${block}`)?.textContent ?? "");
}
