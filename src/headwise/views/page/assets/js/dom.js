/** Elements, made without markup: text is always text. */

/** @typedef {Node | string | number | null | undefined | false} Child */

/** @param {string} tag @param {Record<string, any>} [properties] @param {...(Child | Child[])} children
 *  @returns {any} */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name in element && !name.includes("-") && name !== "role") /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, String(value));
  }
  element.append(...keep(children));
  return element;
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function keep(children) {
  return children.flat().filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** Replace what an element holds. @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
  element.replaceChildren(...keep(children));
}

const SVG = "http://www.w3.org/2000/svg";

/** @param {string} tag @param {Record<string, string | number>} attributes @param {...Node} children @returns {any} */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Buttons of which one is pressed.
 * @template T @param {string} label @param {{value: T, text: string, title?: string}[]} choices @param {(value: T) => void} choose */
export function choice(label, choices, choose) {
  const buttons = choices.map(({ value, text, title }) =>
    h("button", { type: "button", title, onclick: () => choose(value) }, text));
  const element = h("div", { className: "choice", role: "group", "aria-label": label }, buttons);
  return {
    element,
    buttons,
    /** @param {T} value */
    show(value) {
      choices.forEach((one, at) => buttons[at].setAttribute("aria-pressed", String(one.value === value)));
    },
  };
}

/** A list to choose from, with a step back and a step on. @param {string} name @param {(value: number) => void} choose */
export function stepper(name, choose) {
  const select = h("select", { "aria-label": name, onchange: () => choose(Number(select.value)) });
  const walk = (/** @type {number} */ by) => () => {
    const option = select.options[select.selectedIndex + by];
    if (option) choose(Number(option.value));
  };
  const back = h("button", { type: "button", "aria-label": `Previous ${name.toLowerCase()}`, onclick: walk(-1) }, "‹");
  const next = h("button", { type: "button", "aria-label": `Next ${name.toLowerCase()}`, onclick: walk(1) }, "›");
  let shown = "";
  return {
    element: h("div", { className: `stepper of-${name.toLowerCase()}` }, h("span", { className: "name", "aria-hidden": "true" }, name), back, select, next),
    /** @param {{value: number, text: string}[]} options @param {number} value */
    show(options, value) {
      const key = JSON.stringify(options);
      if (key !== shown) fill(select, options.map((one) => h("option", { value: String(one.value) }, one.text)));
      shown = key;
      select.value = String(value);
      back.disabled = select.selectedIndex <= 0;
      next.disabled = select.selectedIndex >= options.length - 1;
    },
  };
}

/** One of several elements can be reached by Tab, the others by arrow keys.
 * @param {ArrayLike<HTMLElement>} elements @param {number} current */
export function rove(elements, current) {
  for (let at = 0; at < elements.length; at++) elements[at].tabIndex = at === current ? 0 : -1;
}

/** Where an arrow key leads in rows of `width`, or null. @param {string} key @param {number} at @param {number} width
 *  @param {number} count */
export function stepBy(key, at, width, count) {
  const steps = /** @type {Record<string, number>} */ ({ ArrowLeft: -1, ArrowRight: 1, ArrowUp: -width, ArrowDown: width });
  if (key === "Home") return at - (at % width);
  if (key === "End") return Math.min(count - 1, at - (at % width) + width - 1);
  if (!(key in steps)) return null;
  const next = at + steps[key];
  return next >= 0 && next < count ? next : at;
}

/** A number with so many digits after the point, and a true minus. @param {number} value @param {number} [digits] */
export function number(value, digits = 3) {
  if (value === -Infinity) return "−∞";
  const text = value.toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** A number with seven significant digits. @param {number} value */
export function exact(value) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(6) : value.toPrecision(7);
  return text.replace("-", "−").replace("e-", "e−");
}

/** @param {number} share */
export function percent(share) {
  const value = share * 100;
  return value > 0 && value < 1 ? "<1 %" : `${Math.round(value)} %`;
}
