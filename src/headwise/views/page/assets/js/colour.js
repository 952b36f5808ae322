/** Ramps whose lightness tells the order, so that they read without colour too; and the marks of light and dark. */

/** @typedef {[number, number, number]} Colour */

const LIGHT = {
  sequential: ["#ffffff", "#cfe1f2", "#93c0e0", "#4f94c9", "#1c63a8", "#0a3263"],
  diverging: ["#8a3b00", "#cf6f1f", "#f2b983", "#f7f7f5", "#9dc3e2", "#3b7fbd", "#0b3f7d"],
};
const DARK = {
  sequential: ["#171a20", "#1d3450", "#25578a", "#3d83c0", "#7fb9e8", "#e2f1ff"],
  diverging: ["#ffb066", "#d07a2a", "#7a4a20", "#22252c", "#28527f", "#4f94d6", "#a9d5ff"],
};

const STEPS = 256;

/** One ramp, as 256 colours. */
export class Ramp {
  /** @param {string[]} stops */
  constructor(stops) {
    const colours = stops.map(parse);
    /** @type {Colour[]} */
    this.colours = Array.from({ length: STEPS }, (_, at) => between(colours, (at / (STEPS - 1)) * (colours.length - 1)));
    this.words = new Uint32Array(this.colours.map(([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0));
    this.texts = this.colours.map((colour) => `rgb(${colour.join(" ")})`);
  }

  /** @param {number} share from 0 to 1 */
  at(share) {
    return this.texts[this.index(share)];
  }

  /** @param {number} share */
  index(share) {
    return Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1)))) || 0;
  }

  /** Whether white text has more contrast on this colour than black: always at least 4.5 to 1. @param {number} share */
  isDark(share) {
    const [red, green, blue] = this.colours[this.index(share)].map((part) => (part <= 10 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179;
  }
}

/** @param {string} text @returns {Colour} */
function parse(text) {
  const number = parseInt(text.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

/** @param {Colour[]} colours @param {number} position @returns {Colour} */
function between(colours, position) {
  const first = Math.min(colours.length - 2, Math.floor(position));
  const share = position - first;
  const mix = (/** @type {number} */ at) => Math.round(colours[first][at] * (1 - share) + colours[first + 1][at] * share);
  return [mix(0), mix(1), mix(2)];
}

const themes = [LIGHT, DARK].map(({ sequential, diverging }) => ({
  sequential: new Ramp(sequential),
  diverging: new Ramp(diverging),
}));

const dark = matchMedia("(prefers-color-scheme: dark)");
const PAPER = "on-paper";

function isDark() {
  return dark.matches && !document.documentElement.classList.contains(PAPER);
}

/** The ramps of the theme in use. */
export function ramps() {
  return themes[isDark() ? 1 : 0];
}

/** The pixel of a part that may not be seen. */
export function masked() {
  return isDark() ? 0xff3a322c : 0xffdfe3e6;
}

/** Paper is white: what is printed or saved as a picture is drawn in the light theme.
 * @param {boolean} on @param {() => void} redraw */
export function onPaper(on, redraw) {
  document.documentElement.classList.toggle(PAPER, on);
  if (dark.matches) redraw();
}

/** @param {() => void} redraw */
export function onTheme(redraw) {
  dark.addEventListener("change", redraw);
}

/** A named colour of the style sheet. @param {string} name */
export function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Small weights are visible when colour grows with the square root. @param {number} value @param {number} most */
export function share(value, most) {
  return most > 0 ? Math.sqrt(Math.max(0, value) / most) : 0;
}

/** From 0 to 1 with nought in the middle. @param {number} value @param {number} most */
export function shareSigned(value, most) {
  return most > 0 ? 0.5 + (0.5 * value) / most : 0.5;
}
