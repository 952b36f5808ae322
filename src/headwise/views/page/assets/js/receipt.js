/** The receipt: how far what is drawn is from what the model computed, and how to have it again. */

import { fill, h } from "./dom.js";

/** @typedef {import("./data.js").Header} Header */

/** @param {number} value */
export function small(value) {
  return value === 0 ? "0" : value.toExponential(1).replace("e-", "e−").replace("e+", "e");
}

/** @param {HTMLElement} element @param {Header} header */
export function showReceipt(element, header) {
  const { receipt, model, command } = header;
  const cells = receipt.rows.map(({ check, layer, error, allowed }) => h("tr", {}, h("th", { scope: "row" }, check), h("td", {}, layer),
    h("td", {}, error === null ? "not checked" : small(error)), h("td", {}, allowed === null ? "" : small(allowed))));
  const heads = ["Check", "Layer", "Largest difference", "Allowed"];
  const table = h("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": "Checks" }, h("table", { className: "plain" },
    h("caption", {}, "What is drawn against what the model computed"),
    h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, cells)));
  const facts = Object.entries(model).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
  const copy = h("button", { type: "button", onclick: () => copyText(command ?? "", copy) }, "Copy");
  const again = command && [h("dt", {}, "again with"), h("dd", {}, h("code", {}, command), " ", copy)];
  fill(element, table, h("dl", {}, facts, h("dt", {}, "stored"), h("dd", {}, storedText(receipt)), again));
}

/** How exact the numbers in the file are. @param {import("./data.js").Receipt} receipt */
function storedText({ stored }) {
  const errors = stored.errors.map(({ what, error }) => `${what} moves by at most ${small(error)}`).join(", ");
  return `${stored.kept.join("; ")}. ${errors ? `Because of float16, ${errors}.` : "Weights are computed in the page from these numbers."}`;
}

/** @param {string} text @param {HTMLElement} button */
export async function copyText(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // A file opened from disk, or a frame, may have no clipboard: show the text, selected.
    const field = h("input", { value: text, readOnly: true, className: "copy", "aria-label": "Text to copy" });
    button.after(field);
    field.select();
    field.addEventListener("blur", () => field.remove());
    return;
  }
  setTimeout(() => (button.textContent = before), 1500);
}
