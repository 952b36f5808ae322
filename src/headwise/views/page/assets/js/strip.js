/** A vector as a strip of coloured cells, one per number. */

import { ramps, shareSigned } from "./colour.js";
import { h, number } from "./dom.js";

/** The largest size of any number. @param {ArrayLike<number>[]} vectors */
export function largest(vectors) {
  let most = 0;
  for (const vector of vectors) for (let at = 0; at < vector.length; at++) most = Math.max(most, Math.abs(vector[at]));
  return most;
}

/** The size that gets the full colour: a few outliers must not make all other numbers pale.
 * @param {ArrayLike<number>[]} vectors */
export function typical(vectors) {
  let sum = 0;
  let count = 0;
  for (const vector of vectors) {
    for (let at = 0; at < vector.length; at++) sum += vector[at] * vector[at];
    count += vector.length;
  }
  return Math.min(largest(vectors), 3 * Math.sqrt(sum / Math.max(1, count)));
}

/** @param {ArrayLike<number>} vector @param {number} most the number that gets the full colour
 *  @param {string} label @param {string} [size] a class for its width */
export function strip(vector, most, label, size = "") {
  const canvas = picture(vector, vector.length, most);
  canvas.className = `strip ${size}`;
  if (vector.length > 200) canvas.style.imageRendering = "auto";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${label}, ${vector.length} numbers: ${first(vector, 4)}`);
  /** @type {any} */ (canvas).vector = vector;
  canvas.dataset.name = label;
  return canvas;
}

/** Rows of numbers as one small picture, one pixel per number.
 * @param {ArrayLike<number>} values @param {number} columns @param {number} most */
export function picture(values, columns, most) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { width: columns, height: values.length / columns }));
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const { diverging } = ramps();
  for (let at = 0; at < pixels.length; at++) pixels[at] = diverging.words[diverging.index(shareSigned(values[at], most))];
  context.putImageData(image, 0, 0);
  return canvas;
}

/** The first numbers, and how many more there are. @param {ArrayLike<number>} vector @param {number} count */
export function first(vector, count) {
  const shown = Array.from({ length: Math.min(count, vector.length) }, (_, at) => number(vector[at]));
  return shown.join("  ") + (vector.length > count ? ` … ${vector.length - count} more` : "");
}

/** The numbers themselves, in place of a strip. @param {ArrayLike<number>} vector */
export function digits(vector) {
  const shown = vector.length <= 128 ? vector.length : 16;
  const cells = Array.from({ length: shown }, (_, at) => h("span", {}, number(vector[at])));
  return h("span", { className: "digits" }, cells, vector.length > shown && h("span", { className: "more" }, `… ${vector.length - shown} more`));
}

/** The number under the pointer, beside it. */
export class Readout {
  constructor() {
    this.element = h("div", { className: "readout", "aria-hidden": "true", hidden: true });
    document.body.append(this.element);
  }

  /** @param {HTMLElement} area in which strips are */
  watch(area) {
    area.addEventListener("pointermove", (event) => this.#show(event));
    area.addEventListener("focusin", (event) => this.#tell(/** @type {HTMLElement} */ (event.target)));
    for (const name of ["pointerleave", "focusout"]) area.addEventListener(name, () => (this.element.hidden = true));
  }

  /** The first numbers of the strip in a cell that was reached by the keyboard. @param {HTMLElement} cell */
  #tell(cell) {
    const canvas = /** @type {any} */ (cell.matches("td, .vector") ? cell.querySelector("canvas.strip") : null);
    this.element.hidden = !canvas || !cell.matches(":focus-visible");
    if (this.element.hidden) return;
    const box = canvas.getBoundingClientRect();
    this.#place(`${canvas.dataset.name}: ${first(canvas.vector, 6)}`, box.left, box.bottom + 6);
  }

  /** @param {string} text @param {number} x @param {number} y */
  #place(text, x, y) {
    this.element.textContent = text;
    this.element.style.transform = `translate(${Math.max(8, Math.min(x, innerWidth - this.element.offsetWidth - 8))}px, ${y}px)`;
  }

  /** @param {PointerEvent} event */
  #show(event) {
    const canvas = /** @type {any} */ (event.target);
    const vector = canvas?.vector;
    this.element.hidden = !vector;
    if (!vector) return;
    const at = indexAt(canvas, event);
    this.#place(`${canvas.dataset.name} [${at}] = ${number(vector[at], 4)}`, event.clientX + 12, event.clientY + 16);
  }
}

/** Which number of a strip the pointer is over. @param {HTMLCanvasElement} canvas @param {MouseEvent} event */
export function indexAt(canvas, event) {
  const box = canvas.getBoundingClientRect();
  const share = (event.clientX - box.left) / box.width;
  return Math.max(0, Math.min(canvas.width - 1, Math.floor(share * canvas.width)));
}
