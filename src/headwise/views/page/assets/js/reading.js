/** Numbers derived from a place, kept while there is room: scores, weights, means, and all of them by unit. */

import { scoresOf, stepsOf, weightsOf } from "./attention.js";
import { receivedBy, sinksOf } from "./kinds.js";
import { merge, unitsOf } from "./units.js";

/** @typedef {import("./data.js").Place} Place */
/** @typedef {import("./units.js").Unit} Unit */
/** @typedef {"looked" | "wrote" | "scores"} Lens */
/** @typedef {{rows: Unit[], columns: Unit[], values: Float32Array, hidden: Uint8Array | null,
 *   masked: (row: number, column: number) => boolean}} Grid */

const ROOM = 128e6;

/** What was used last, up to a number of bytes. */
class Shelf {
  constructor() {
    /** @type {Map<string, any>} */
    this.held = new Map();
    this.bytes = 0;
  }

  /** @template T @param {string} name @param {() => T} make @returns {T} */
  get(name, make) {
    const held = this.held.get(name) ?? make();
    if (!this.held.delete(name)) this.bytes += sizeOf(held);
    this.held.set(name, held);
    for (const [old, value] of this.held) {
      if (this.bytes <= ROOM || old === name) break;
      this.held.delete(old);
      this.bytes -= sizeOf(value);
    }
    return held;
  }
}

/** @param {any} value */
function sizeOf(value) {
  if (ArrayBuffer.isView(value)) return value.byteLength;
  return Object.values(value).reduce((sum, one) => sum + (ArrayBuffer.isView(one) ? one.byteLength : 0), 0);
}

export class Reading {
  constructor() {
    this.shelf = new Shelf();
  }

  /** @param {Place} place @param {number} head @returns {Float32Array} */
  scores(place, head) {
    return this.shelf.get(`${name(place)} ${head} scores`, () => scoresOf(place, head));
  }

  /** @param {Place} place @param {number} head @returns {Float32Array} */
  weights(place, head) {
    return this.shelf.get(`${name(place)} ${head} weights`, () => weightsOf(place, this.scores(place, head)));
  }

  /** weight · ‖v W_O‖. @param {Place} place @param {number} head @returns {Float32Array} */
  wrote(place, head) {
    const norms = place.keyNorms(head);
    const { keys } = place;
    if (!norms) throw new Error("W_O is not known");
    return this.shelf.get(`${name(place)} ${head} wrote`, () =>
      this.weights(place, head).map((weight, at) => weight * norms[at % keys]));
  }

  /** The mean of the weights of all heads of the layer. @param {Place} place @returns {Float32Array} */
  meanWeights(place) {
    return this.shelf.get(`${name(place)} mean`, () => {
      const mean = new Float32Array(place.queries * place.keys);
      for (let head = 0; head < place.heads.length; head++) {
        const weights = this.weights(place, head);
        for (let at = 0; at < mean.length; at++) mean[at] += weights[at] / place.heads.length;
      }
      return mean;
    });
  }

  /** One query of one head, every step in float64. @param {Place} place @param {number} head @param {number} query */
  steps(place, head, query) {
    return this.shelf.get(`${name(place)} ${head} steps ${query}`, () => stepsOf(place, head, query));
  }

  /** The units that look and those looked at, of the tokens that this place has.
   * @param {Place} place @param {"words" | "tokens"} kind @returns {{rows: Unit[], columns: Unit[]}} */
  units(place, kind) {
    return this.shelf.get(`${name(place)} ${kind}`, () => ({
      rows: unitsOf(place.looking, kind, place.offset, place.offset + place.queries),
      columns: unitsOf(place.lookedAt, kind, 0, place.keys),
    }));
  }

  /** The numbers of one head, or of the mean of all, by unit.
   * @param {Place} place @param {number | "mean"} head @param {Lens} lens @param {"words" | "tokens"} kind @returns {Grid} */
  grid(place, head, lens, kind) {
    const { rows, columns } = this.units(place, kind);
    const queries = rows.map((unit) => unit.tokens.map((token) => token - place.offset));
    const keys = columns.map((unit) => unit.tokens);
    const hidden = place.masked ? this.#hidden(place, head === "mean" ? 0 : head, kind, queries, keys) : null;
    return {
      rows,
      columns,
      hidden,
      values: this.shelf.get(`${name(place)} ${head} ${lens} ${kind}`, () =>
        merge(this.#numbers(place, head, lens), place.keys, queries, keys, lens === "scores" ? "mean" : "sum")),
      masked: (row, column) => hidden !== null && hidden[row * columns.length + column] > 0,
    };
  }

  /** One where nothing of a unit may be seen. @param {Place} place @param {number} head @param {string} kind
   *  @param {number[][]} queries @param {number[][]} keys @returns {Uint8Array} */
  #hidden(place, head, kind, queries, keys) {
    const own = "allowed" in place.arrays ? head : 0;
    return this.shelf.get(`${name(place)} ${own} hidden ${kind}`, () => {
      const hidden = new Uint8Array(queries.length * keys.length);
      queries.forEach((rows, row) => keys.forEach((columns, column) => {
        const seen = rows.some((query) => columns.some((key) => place.allows(head, query, key)));
        hidden[row * keys.length + column] = seen ? 0 : 1;
      }));
      return hidden;
    });
  }

  /** @param {Place} place @param {number | "mean"} head @param {Lens} lens */
  #numbers(place, head, lens) {
    if (head === "mean") return this.meanWeights(place);
    if (lens === "wrote") return this.wrote(place, head);
    return lens === "scores" ? this.scores(place, head) : this.weights(place, head);
  }

  /** What each key receives, and which keys are sinks. @param {Place} place @param {number} head
   *  @param {"words" | "tokens"} kind @returns {{looked: Float64Array, written: Float64Array | null, sinks: number[]}} */
  received(place, head, kind) {
    return this.shelf.get(`${name(place)} ${head} received ${kind}`, () => {
      const { columns, values } = this.grid(place, head, "looked", kind);
      const wrote = place.keyNorms(head) ? this.grid(place, head, "wrote", kind).values : null;
      const received = receivedBy(values, wrote, columns.length);
      return { ...received, sinks: sinksOf(received) };
    });
  }
}

/** @param {Place} place */
function name(place) {
  return `${place.mode} ${place.layer}`;
}
