// Elements made of code. Text is only ever text: there is no way through here from a string to markup.

const SVG = "http://www.w3.org/2000/svg";
const NEVER = /^(on|style$|srcdoc$|formaction$|src$)/i;

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function" && name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") node[name] = value;
    else if (name === "vars") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else if (NEVER.test(name)) throw new Error(`the attribute ${name} is not set by text`);
    else if (name === "href") node.setAttribute("href", safeAddress(value));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

export function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
}

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Addresses lead to a view of this page, or to another console.
export function safeAddress(address) {
  const text = String(address);
  if (text.startsWith("#")) return text;
  const url = new URL(text, location.href);
  if (url.protocol !== "http:" && url.protocol !== "https:") throw new Error("such an address is not followed");
  return url.href;
}

export function replace(node, ...children) {
  node.replaceChildren();
  append(node, children);
  return node;
}
