/** What a person sees as one: a word, or a token. A word's tokens are merged: mean over queries, sum over keys. */

/** @typedef {import("./data.js").Stream} Stream */
/** @typedef {{label: string, tokens: number[], special: boolean, written: boolean, start: number, end: number}} Unit */

/** A label as it is shown: white space has a sign of its own. @param {string} label */
export function shown(label) {
  return label.trim() || (label.includes("\n") ? "↵" : "␣");
}

/** Which way a text is read, by its first letter. @param {string} text */
export function directionOf(text) {
  const letter = /\p{L}/u.exec(text)?.[0] ?? "";
  return /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/.test(letter) ? "rtl" : "ltr";
}

/** The units among the tokens [first, last). @param {Stream} stream @param {"words" | "tokens"} kind
 *  @param {number} first @param {number} last @returns {Unit[]} */
export function unitsOf(stream, kind, first, last) {
  const groups = kind === "words" ? stream.words : stream.tokens.map((_, at) => [at]);
  const inside = groups.map((tokens) => tokens.filter((token) => token >= first && token < last));
  return inside.filter((tokens) => tokens.length).map((tokens) => unitOf(stream, kind, tokens));
}

/** @param {Stream} stream @param {"words" | "tokens"} kind @param {number[]} tokens @returns {Unit} */
function unitOf(stream, kind, tokens) {
  const special = tokens.every((token) => stream.special[token]);
  const written = stream.written_from !== null && tokens[0] >= stream.written_from;
  const unit = { tokens, special, written, start: -1, end: -1, label: tokens.map((token) => stream.tokens[token]).join("") };
  if (stream.text === null || !stream.offsets) return unit;
  const start = stream.offsets[tokens[0]][0];
  const end = stream.offsets[tokens[tokens.length - 1]][1];
  if (end <= start) return unit;
  // A token keeps its own piece (##ing, [UNK]); words are shown as they stand in the text.
  return { ...unit, start, end, label: kind === "words" ? stream.text.slice(start, end) : unit.label };
}

/** The unit that holds a token, or −1. @param {Unit[]} units @param {number} token */
export function unitAt(units, token) {
  return units.findIndex((unit) => unit.tokens.includes(token));
}

/** Merge [query · key] numbers of tokens to those of units.
 * @param {Float32Array} values @param {number} keys @param {number[][]} rows query numbers of each unit
 * @param {number[][]} columns @param {"sum" | "mean"} over what is done with the keys of a unit */
export function merge(values, keys, rows, columns, over) {
  if (rows.length * columns.length === values.length) return values;
  const result = new Float32Array(rows.length * columns.length);
  rows.forEach((queries, at) => {
    const row = mergeRow(queries.map((query) => values.subarray(query * keys, (query + 1) * keys)), columns, over);
    result.set(row, at * columns.length);
  });
  return result;
}

/** A mean leaves out what is masked.
 * @param {ArrayLike<number>[]} rows @param {number[][]} columns @param {"sum" | "mean"} over */
export function mergeRow(rows, columns, over) {
  return columns.map((tokens) => {
    let total = 0;
    let count = 0;
    for (const row of rows) {
      for (const token of tokens) {
        if (row[token] === -Infinity) continue;
        total += row[token];
        count++;
      }
    }
    if (over === "mean") return count ? total / count : -Infinity;
    return total / rows.length;
  });
}
