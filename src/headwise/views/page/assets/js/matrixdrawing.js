/** Where everything of the matrix stands, and how it is drawn: labels, cells, masked parts, what each word receives. */

import { ink, ramps, share, shareSigned } from "./colour.js";
import { shown } from "./units.js";

/** @typedef {import("./reading.js").Grid} Grid */
/** @typedef {{width: number, height: number, x: number, y: number, cell: number, cellHeight: number, left: number, top: number, shownWidth: number,
 *   shownHeight: number, mostZoom: number, font: number, bars: number}} Layout */
/** @typedef {{from: number, to: number, colour: (value: number) => string, word: (value: number) => number}} Scale */
/** @typedef {{grid: Grid, layout: Layout, scale: Scale, received: {looked: Float64Array, sinks: number[]},
 *   chosen: number, cell: {row: number, column: number} | null}} Drawing */

const TALLEST = 640;
const LARGEST = 56;
const READABLE = 12;
const LETTERS = 14;
const BARS = 26;
const SHARP = 4096;

/** The colours of the numbers of one lens. @param {Float32Array} values @param {"looked" | "wrote" | "scores"} lens
 *  @returns {Scale} */
export function scaleFor(values, lens) {
  let most = 0;
  for (const value of values) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  const { sequential, diverging } = ramps();
  const signed = lens === "scores";
  const to = lens === "looked" ? 1 : most;
  const ramp = signed ? diverging : sequential;
  const index = (/** @type {number} */ value) => ramp.index(signed ? shareSigned(value, to) : share(value, to));
  return { from: signed ? -to : 0, to, colour: (value) => ramp.texts[index(value)], word: (value) => ramp.words[index(value)] };
}

/** @param {Grid} grid @param {number} width @param {{zoom: number, left: number, top: number}} view @returns {Layout} */
export function layOut(grid, width, view) {
  const font = width < 420 ? 10.5 : 12;
  const [rows, columns] = [grid.rows.length, grid.columns.length];
  const x = Math.min(width * 0.28, longest(grid.rows) * font * 0.64 + 14);
  const y = BARS + Math.min(110, longest(grid.columns) * font * 0.5 + 16);
  const room = width - x - 2 - Math.min(longest(grid.columns), 8) * font * 0.3;
  const [wide, tall] = [Math.min(LARGEST, room / columns), Math.min(LARGEST, TALLEST / rows)];
  // Square, unless that would make one side too thin to read.
  const square = Math.max(Math.min(wide, tall), READABLE);
  const [cell, cellHeight] = [Math.min(wide, square) * view.zoom, Math.min(tall, square) * view.zoom];
  const shownWidth = Math.min(room, cell * columns);
  const shownHeight = Math.min(TALLEST, cellHeight * rows);
  const left = Math.max(0, Math.min(cell * columns - shownWidth, view.left));
  const top = Math.max(0, Math.min(cellHeight * rows - shownHeight, view.top));
  const mostZoom = Math.max(1, (36 * view.zoom) / Math.min(cell, cellHeight));
  return { width, height: y + shownHeight + 6, x, y, cell, cellHeight, left, top, shownWidth, shownHeight, mostZoom, font, bars: BARS };
}

/** The length of the longest label, as far as it is shown. @param {{label: string}[]} units */
function longest(units) {
  return Math.min(LETTERS, units.reduce((most, { label }) => Math.max(most, [...label.trim()].length), 2));
}

/** @param {import("./paint.js").Painter} paint @param {Drawing} drawing */
export function drawMatrix(paint, drawing) {
  drawCells(paint, drawing);
  drawReceived(paint, drawing);
  drawLabels(paint, drawing);
  drawMarks(paint, drawing);
}

/** The columns in view. @param {Drawing} drawing */
function columnsInView({ grid, layout }) {
  const first = Math.max(0, Math.floor(layout.left / layout.cell));
  return [first, Math.min(grid.columns.length, Math.ceil((layout.left + layout.shownWidth) / layout.cell - 1e-6))];
}

/** @type {{values: Float32Array | null, scale: string, canvas: HTMLCanvasElement | null}} */
const kept = { values: null, scale: "", canvas: null };

/** One pixel per cell. @param {Drawing} drawing */
function pixels({ grid, scale }) {
  const look = `${scale.colour(0)} ${scale.colour(scale.to)} ${scale.to}`;
  if (kept.values === grid.values && kept.scale === look && kept.canvas) return kept.canvas;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [grid.columns.length, grid.rows.length];
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(canvas.width, canvas.height);
  const words = new Uint32Array(image.data.buffer);
  for (let at = 0; at < words.length; at++) words[at] = grid.hidden?.[at] ? 0 : scale.word(grid.values[at]);
  context.putImageData(image, 0, 0);
  Object.assign(kept, { values: grid.values, scale: look, canvas });
  return canvas;
}

/** @param {import("./paint.js").Painter} paint @param {Drawing} drawing */
function drawCells(paint, drawing) {
  const { grid, layout, scale } = drawing;
  const { x, y, cell, cellHeight, left, top, shownWidth, shownHeight } = layout;
  if (grid.hidden) {
    // Masked cells are left out below, so that this shows through.
    paint.rect(x, y, shownWidth, shownHeight, ink("masked"));
    paint.hatch(x, y, shownWidth, shownHeight);
  } else paint.rect(x, y, shownWidth, shownHeight, ink("cell"));
  const whole = cell * grid.columns.length <= shownWidth + 0.5 && cellHeight * grid.rows.length <= shownHeight + 0.5;
  if (whole && grid.values.length <= SHARP) drawSharp(paint, drawing);
  else paint.image(pixels(drawing), [left / cell, top / cellHeight, shownWidth / cell, shownHeight / cellHeight], [x, y, shownWidth, shownHeight]);
  paint.frame(x - 0.5, y - 0.5, shownWidth + 1, shownHeight + 1, ink("line"));
}

/** Each cell as a rectangle of its own. @param {import("./paint.js").Painter} paint @param {Drawing} drawing */
function drawSharp(paint, { grid, layout: { x, y, cell, cellHeight }, scale }) {
  const gap = Math.min(cell, cellHeight) > 8 ? 1 : 0;
  grid.values.forEach((value, at) => {
    const [row, column] = [Math.floor(at / grid.columns.length), at % grid.columns.length];
    if (grid.masked(row, column)) return;
    const [left, top] = [x + column * cell, y + row * cellHeight];
    if (gap && grid.hidden) paint.rect(left, top, cell, cellHeight, ink("cell"));
    paint.rect(left, top, cell - gap, cellHeight - gap, scale.colour(value));
  });
}

/** @param {Layout} layout @param {number} row @param {number} start @param {number} stop
 *  @returns {[number, number, number, number]} */
function clip({ x, y, cell, cellHeight, left, top, shownWidth, shownHeight }, row, start, stop) {
  const [x1, x2] = [start, stop].map((at) => Math.max(0, Math.min(shownWidth, at * cell - left)));
  const [y1, y2] = [row, row + 1].map((at) => Math.max(0, Math.min(shownHeight, at * cellHeight - top)));
  return [x + x1, y + y1, x2 - x1, y2 - y1];
}

/** What each word receives, as bars above the matrix. @param {import("./paint.js").Painter} paint @param {Drawing} drawing */
function drawReceived(paint, drawing) {
  const { layout, received } = drawing;
  const [firstColumn, lastColumn] = columnsInView(drawing);
  const base = layout.y - 3;
  for (let column = firstColumn; column < lastColumn; column++) {
    const [x, , width] = clip(layout, 0, column, column + 1);
    const tall = Math.max(0.5, received.looked[column] * (layout.bars - 13));
    const sink = received.sinks.includes(column);
    paint.rect(x, base - tall, Math.max(0.5, width - (layout.cell > 8 ? 1 : 0)), tall, ink(sink ? "key" : "bar"));
    if (sink) paint.text("◆", x + width / 2, base - tall - 5, { size: 9, align: "center", fill: ink("key") });
  }
}

/** @param {import("./paint.js").Painter} paint @param {Drawing} drawing */
function drawLabels(paint, { grid, layout, chosen, cell }) {
  const { x, y, left, top, shownWidth, shownHeight, font, bars } = layout;
  /** As many labels as fit, and always the one that is pointed at.
   * @param {number} at @param {number | undefined} special @param {number} size */
  const fits = (at, special, size) => {
    if (at === special) return true;
    if (special !== undefined && Math.abs(at - special) * size < font + 3) return false;
    return at % Math.max(1, Math.ceil((size < 8 ? font * 1.7 : font + 2) / size)) === 0;
  };
  grid.rows.forEach((unit, at) => {
    const middle = (at + 0.5) * layout.cellHeight - top;
    if (middle < 0 || middle > shownHeight || !fits(at, cell?.row ?? chosen, layout.cellHeight)) return;
    const marked = at === chosen || at === cell?.row;
    paint.text(short(unit.label), x - 8, y + middle, { size: font, align: "right", bold: marked, fill: ink(marked ? "query" : unit.special ? "soft" : "ink") });
  });
  grid.columns.forEach((unit, at) => {
    const middle = (at + 0.5) * layout.cell - left;
    if (middle < 0 || middle > shownWidth || !fits(at, cell?.column, layout.cell)) return;
    const marked = at === cell?.column;
    paint.text(short(unit.label), x + middle + 1, y - bars - 4, { size: font, turn: -52, bold: marked, fill: ink(marked ? "key" : unit.special ? "soft" : "ink") });
  });
}

/** @param {import("./paint.js").Painter} paint @param {Drawing} drawing */
function drawMarks(paint, { layout, chosen, cell, grid }) {
  const [x, y, width, height] = clip(layout, chosen, 0, grid.columns.length);
  if (layout.cellHeight < 6) paint.frame(x - 2, y - 2, width + 4, height + 4, ink("query"));
  else if (height > 0) paint.frame(x, y, width, height - (layout.cellHeight > 8 ? 1 : 0), ink("query"), 2);
  if (!cell) return;
  const [cx, cy, cw, ch] = clip(layout, cell.row, cell.column, cell.column + 1);
  if (Math.min(layout.cell, layout.cellHeight) < 12) {
    paint.line(layout.x, cy + ch / 2, layout.x + layout.shownWidth, cy + ch / 2, ink("cross"));
    paint.line(cx + cw / 2, layout.y, cx + cw / 2, layout.y + layout.shownHeight, ink("cross"));
  }
  paint.frame(cx, cy, Math.max(3, cw - 1), Math.max(3, ch - 1), ink("key"), 2);
}

/** @param {string} label */
function short(label) {
  const signs = [...shown(label)];
  return signs.length > LETTERS ? `${signs.slice(0, LETTERS - 1).join("")}…` : signs.join("");
}
