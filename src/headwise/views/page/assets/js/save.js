/** Views as files: SVG for print, CSV for a spreadsheet. */

import { SvgPainter } from "./paint.js";

/** @typedef {{export(paint: import("./paint.js").Painter): void, csv?: () => (string | number)[][]}} View */

/** @param {View} view @param {string} name */
export function saveSvg(view, name) {
  const painter = new SvgPainter();
  view.export(painter);
  save(painter.finish(name), "image/svg+xml", `${name}.svg`);
}

/** @param {(string | number)[][]} rows @param {string} name */
export function saveCsv(rows, name) {
  save(`\ufeff${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`, "text/csv", `${name}.csv`);
}

/** Text that a spreadsheet would run as a formula gets a sign before it. @param {string | number} value */
function cell(value) {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {string} text @param {string} type @param {string} name */
function save(text, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
