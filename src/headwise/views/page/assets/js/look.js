/** What the chosen word looks at, or what looks at it: the weights behind the lines, and the sentence that says so. */

import { number } from "./dom.js";
import { mergeRow, shown, unitAt } from "./units.js";

/** @typedef {import("./units.js").Unit} Unit */
/** @typedef {{state: import("./state.js").State, place: import("./data.js").Place, head: number, rows: Unit[], columns: Unit[]}} Chosen */

/** The weights of one unit: on all that it looks at, or of all that look at it.
 * @param {import("./reading.js").Reading} reading @param {Chosen} chosen @param {Unit} unit @returns {number[]} */
export function weightsOfUnit(reading, { state, place, head, rows, columns }, unit) {
  if (state.direction === "from") {
    const heads = state.average ? place.heads.map((_, at) => at) : [head];
    const queries = unit.tokens.map((token) => token - place.offset).filter((query) => query >= 0 && query < place.queries);
    return mergeRow(queries.flatMap((query) => heads.map((one) => reading.steps(place, one, query).weights)), columns.map(({ tokens }) => tokens), "sum");
  }
  const { values } = reading.grid(place, state.average ? "mean" : head, "looked", state.units);
  const column = unitAt(columns, unit.tokens[0]);
  return rows.map((_, row) => values[row * columns.length + column]);
}

/** The unit that is chosen, on the side from which lines start. @param {Chosen} chosen @returns {Unit} */
export function chosenUnit({ state, place, rows, columns }) {
  const [units, token] = state.direction === "from" ? [rows, state.token]
    : [columns, place.mode === "cross" ? state.target : state.token];
  return units.find(({ tokens }) => tokens.includes(token)) ?? units[0];
}

/** "Layer 4, head 7: they looks at kids with 0.61", in parts; words are marked.
 * @param {import("./reading.js").Reading} reading @param {Chosen} chosen @returns {{text: string, word?: boolean}[]} */
export function sentenceOf(reading, chosen) {
  const { state, place, rows, columns } = chosen;
  const unit = chosenUnit(chosen);
  const weights = weightsOfUnit(reading, chosen, unit);
  const others = state.direction === "from" ? columns : rows;
  const best = weights.map((_, at) => at).sort((a, b) => weights[b] - weights[a]).slice(0, 3).filter((at) => weights[at] >= 0.005);
  const who = state.average ? `mean of ${place.heads.length} heads` : `head ${state.head}`;
  const verb = state.direction === "from" ? " looks at " : " is looked at by ";
  const parts = best.flatMap((at, place) => [{ text: place ? ", " : "" }, { text: shown(others[at].label), word: true }, { text: ` with ${number(weights[at], 2)}` }]);
  return [{ text: `Layer ${state.layer}, ${who}: ` }, { text: shown(unit.label), word: true }, { text: verb }, ...(parts.length ? parts : [{ text: "nothing" }])];
}
