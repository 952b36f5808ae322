/** The receipt in short, always in view: the largest difference, dtype and kernel, model and file hash, the command.
 * What is cut short stands whole above the bar while it is pointed at or has the focus. */

import { fill, h } from "./dom.js";
import { copyText, small } from "./receipt.js";

/** @typedef {import("./data.js").Header} Header */

const SHORT = 8;

export class Proof {
  /** @param {HTMLElement} element @param {Header} header */
  constructor(element, header) {
    this.element = element;
    this.whole = h("div", { className: "whole", "aria-hidden": "true", hidden: true });
    const { model, command } = header;
    const name = model.model?.split(/[\\/]/).filter(Boolean).pop() ?? model.architecture ?? "a model of no name";
    const origin = [part("model", name, model.model ?? name), hash(model), ...again(command)];
    fill(element, this.whole, h("div", { className: "sum" }, verdict(header), part("run", run(model), run(model))), h("div", { className: "origin" }, origin));
    for (const name of ["pointerover", "focusin"]) element.addEventListener(name, (event) => this.#show(event.target));
    for (const name of ["pointerleave", "focusout"]) element.addEventListener(name, () => this.#show(null));
    element.addEventListener("keydown", (event) => this.#key(event));
  }

  /** @param {EventTarget | null} target */
  #show(target) {
    // The pointer may go to what it opened, to select from it.
    if (target instanceof Node && this.whole.contains(target)) return;
    const shown = target instanceof Element ? /** @type {HTMLElement | null} */ (target.closest("[data-whole]")) : null;
    this.whole.hidden = !shown;
    if (shown) this.whole.textContent = shown.dataset.whole ?? "";
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key !== "Escape" || this.whole.hidden) return;
    event.stopPropagation();
    this.whole.hidden = true;
  }
}

/** @param {Header} header */
function verdict({ receipt }) {
  return h("a", { className: receipt.ok ? "verdict" : "verdict bad", href: "#receipt" }, h("span", { className: "tick", "aria-hidden": "true" }, receipt.ok ? "✓" : "✗"),
    h("span", {}, receipt.ok ? "largest difference" : "does not reconcile"), " ", h("b", {}, small(receipt.worst)));
}

/** @param {Record<string, string>} model */
function run(model) {
  return `${model.dtype ?? "dtype unknown"} · ${model.kernel ?? "kernel unknown"}`;
}

/** The hash of the model's file or, where only the weights in memory are known, their fingerprint.
 * @param {Record<string, string>} model */
function hash(model) {
  const file = model["file of the weights"];
  const found = /^(.*), SHA-256 ([0-9a-f]{64})$/.exec(file ?? "");
  if (found) return part("hash", [h("span", { className: "label" }, "SHA-256 "), `${found[2].slice(0, SHORT)}…`], `SHA-256 of ${found[1]}: ${found[2]}`);
  const print = model["fingerprint of the weights"];
  if (print) return part("hash", [h("span", { className: "label" }, "weights "), `${print.slice(0, SHORT)}…`], `Fingerprint of the weights: ${print}. The file they came from was not read again.`);
  return part("hash", "no hash", "Neither the file of the weights nor their fingerprint is known.");
}

/** How to make the page again. @param {string | null} command */
function again(command) {
  if (!command) return [part("command", "recorded in Python", "This page was written from Python; no command line makes it again.")];
  const copy = h("button", { type: "button", "aria-label": "Copy the command", onclick: () => copyText(command, copy) }, "Copy");
  return [h("code", { className: "part command", tabIndex: 0, data: { whole: command } }, h("bdi", {}, command)), copy];
}

/** What may be cut short; those who listen get the whole. @param {string} kind @param {any} shown @param {string} whole */
function part(kind, shown, whole) {
  const text = shown === whole ? shown : [h("span", { "aria-hidden": "true" }, shown), h("span", { className: "hidden" }, whole)];
  return h("span", { className: `part ${kind}`, tabIndex: 0, data: { whole } }, text);
}
