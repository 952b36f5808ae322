/** One way to draw, two results: on a canvas for the screen, as SVG for print. */

/** @typedef {{size?: number, fill?: string, align?: "left" | "center" | "right", turn?: number, bold?: boolean, serif?: boolean,
 *   numbers?: boolean}} TextStyle */
/** @typedef {{size(width: number, height: number): void, rect(x: number, y: number, width: number, height: number, fill: string): void,
 *   hatch(x: number, y: number, width: number, height: number): void, line(x1: number, y1: number, x2: number, y2: number, stroke: string, width?: number): void,
 *   frame(x: number, y: number, width: number, height: number, stroke: string, thick?: number): void,
 *   path(d: string, stroke: string, width: number, opacity: number): void,
 *   text(text: string, x: number, y: number, style?: TextStyle): void,
 *   image(picture: HTMLCanvasElement, from: [number, number, number, number], to: [number, number, number, number]): void}} Painter */

import { ink } from "./colour.js";

const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const SERIF = '"Iowan Old Style", "Palatino Linotype", Palatino, Georgia, "Noto Serif", serif';

/** Pictures of so many numbers become shapes in SVG, and stay sharp at any size; larger ones are embedded as they are. */
const SHARP = 10000;
/** Around the whole picture. */
const MARGIN = 12;

/** @implements {Painter} */
export class CanvasPainter {
  /** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
  constructor(canvas, width, height) {
    const ratio = Math.min(3, devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.context.scale(ratio, ratio);
  }

  size() {}

  /** @type {Painter["rect"]} */
  rect(x, y, width, height, fill) {
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
  }

  /** @type {Painter["hatch"]} */
  hatch(x, y, width, height) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.strokeStyle = ink("hatch");
    context.lineWidth = 1;
    context.beginPath();
    for (let at = x - height; at < x + width; at += 6) {
      context.moveTo(at, y + height);
      context.lineTo(at + height, y);
    }
    context.stroke();
    context.restore();
  }

  /** @type {Painter["line"]} */
  line(x1, y1, x2, y2, stroke, width = 1) {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = width;
    this.context.beginPath();
    this.context.moveTo(x1, y1);
    this.context.lineTo(x2, y2);
    this.context.stroke();
  }

  /** @type {Painter["frame"]} */
  frame(x, y, width, height, stroke, thick = 1) {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = thick;
    this.context.strokeRect(x, y, width, height);
  }

  /** @type {Painter["path"]} */
  path(d, stroke, width, opacity) {
    this.context.save();
    this.context.globalAlpha = opacity;
    this.context.strokeStyle = stroke;
    this.context.lineWidth = width;
    this.context.stroke(new Path2D(d));
    this.context.restore();
  }

  /** @type {Painter["text"]} */
  text(text, x, y, style = {}) {
    const { context } = this;
    context.save();
    context.translate(x, y);
    if (style.turn) context.rotate((style.turn * Math.PI) / 180);
    context.font = `${style.bold ? "600 " : ""}${style.size ?? 12}px ${style.serif ? SERIF : SANS}`;
    context.fillStyle = style.fill ?? ink("ink");
    context.textAlign = style.align ?? "left";
    context.textBaseline = "middle";
    context.fillText(text, 0, 0);
    context.restore();
  }

  /** @type {Painter["image"]} */
  image(picture, from, to) {
    this.context.imageSmoothingEnabled = to[2] < from[2];
    this.context.imageSmoothingQuality = "high";
    this.context.drawImage(picture, ...from, ...to);
  }
}

/** @implements {Painter} */
export class SvgPainter {
  constructor() {
    /** @type {string[]} */
    this.parts = [];
    this.width = this.height = 0;
  }

  /** @type {Painter["size"]} */
  size(width, height) {
    [this.width, this.height] = [Math.ceil(width), Math.ceil(height)];
  }

  /** @type {Painter["rect"]} */
  rect(x, y, width, height, fill) {
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${safe(fill)}"/>`);
  }

  /** @type {Painter["hatch"]} */
  hatch(x, y, width, height) {
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="url(#hatch)"/>`);
  }

  /** @type {Painter["line"]} */
  line(x1, y1, x2, y2, stroke, width = 1) {
    this.parts.push(`<path d="M${short(x1)} ${short(y1)}L${short(x2)} ${short(y2)}" stroke="${safe(stroke)}" stroke-width="${width}"/>`);
  }

  /** @type {Painter["frame"]} */
  frame(x, y, width, height, stroke, thick = 1) {
    this.parts.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="none" stroke="${safe(stroke)}" stroke-width="${thick}"/>`);
  }

  /** @type {Painter["path"]} */
  path(d, stroke, width, opacity) {
    this.parts.push(`<path d="${safe(d)}" fill="none" stroke="${safe(stroke)}" stroke-width="${width}" opacity="${opacity}" stroke-linecap="round"/>`);
  }

  /** @type {Painter["text"]} */
  text(text, x, y, style = {}) {
    const anchor = { left: "start", center: "middle", right: "end" }[style.align ?? "left"];
    const turn = style.turn ? ` transform="rotate(${style.turn} ${short(x)} ${short(y)})"` : "";
    const weight = style.bold ? ' font-weight="600"' : "";
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" font-size="${style.size ?? 12}" text-anchor="${anchor}" dominant-baseline="central"` +
      ` font-family="${safe(style.serif ? SERIF : SANS)}" fill="${safe(style.fill ?? ink("ink"))}"${weight}${turn}>${safe(text)}</text>`);
  }

  /** @type {Painter["image"]} */
  image(picture, from, to) {
    if (picture.width * picture.height <= SHARP) {
      this.parts.push(cells(picture, from, to));
      return;
    }
    const cut = document.createElement("canvas");
    [cut.width, cut.height] = [Math.max(1, Math.ceil(from[2])), Math.max(1, Math.ceil(from[3]))];
    cut.getContext("2d")?.drawImage(picture, ...from, 0, 0, cut.width, cut.height);
    this.parts.push(`<image x="${short(to[0])}" y="${short(to[1])}" width="${short(to[2])}" height="${short(to[3])}"` +
      ` preserveAspectRatio="none" image-rendering="pixelated" href="${cut.toDataURL()}"/>`);
  }

  /** The whole file. @param {string} title */
  finish(title) {
    const [width, height] = [this.width + 2 * MARGIN, this.height + 2 * MARGIN];
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="${-MARGIN} ${-MARGIN} ${width} ${height}">` +
      `<title>${safe(title)}</title><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">` +
      `<path d="M0 0V6" stroke="${safe(ink("hatch"))}" stroke-width="2"/></pattern></defs>` +
      `<rect x="${-MARGIN}" y="${-MARGIN}" width="100%" height="100%" fill="${safe(ink("card"))}"/>${this.parts.join("")}</svg>`;
  }
}

/** Each number of a picture as a shape of its own, those of one colour in one path.
 * @param {HTMLCanvasElement} picture @param {[number, number, number, number]} from @param {[number, number, number, number]} to */
function cells(picture, [left, top, width, height], to) {
  const context = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
  const pixels = new Uint32Array(context.getImageData(0, 0, picture.width, picture.height).data.buffer);
  const paths = new Map();
  const right = Math.min(picture.width, Math.ceil(left + width - 1e-6));
  for (let y = Math.floor(top); y < Math.min(picture.height, top + height - 1e-6); y++) {
    const [y1, y2] = [Math.max(y, top) - top, Math.min(y + 1, top + height) - top];
    for (let x = Math.floor(left), start = x; x < right; x++) {
      const colour = pixels[y * picture.width + x];
      if (x + 1 < right && pixels[y * picture.width + x + 1] === colour) continue;
      const [x1, x2] = [Math.max(start, left) - left, Math.min(x + 1, left + width) - left];
      if (colour >>> 24) paths.set(colour, `${paths.get(colour) ?? ""}M${short(x1)} ${short(y1)}h${short(x2 - x1)}v${short(y2 - y1)}H${short(x1)}z`);
      start = x + 1;
    }
  }
  const scale = `${(to[2] / width).toFixed(5)} ${(to[3] / height).toFixed(5)}`;
  const drawn = [...paths].map(([colour, d]) => `<path fill="#${hex(colour)}${hex(colour >> 8)}${hex(colour >> 16)}" d="${d}"/>`);
  return `<g shape-rendering="crispEdges" transform="translate(${short(to[0])} ${short(to[1])}) scale(${scale})">${drawn.join("")}</g>`;
}

/** @param {number} byte */
function hex(byte) {
  return (byte & 255).toString(16).padStart(2, "0");
}

/** @param {number} value */
function short(value) {
  return Math.round(value * 100) / 100;
}

/** Text inside XML; control characters have no place there. @param {string} text */
function safe(text) {
  const named = /** @type {Record<string, string>} */ ({ "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;" });
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd").replace(/[<>&"]/g, (sign) => named[sign]);
}
