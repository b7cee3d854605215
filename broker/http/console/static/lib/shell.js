// The rail, the theme, and the login.

import { login, post } from "./api.js";
import { h, replace, s } from "./dom.js";
import { current } from "./router.js";
import { help } from "./keyboard.js";
import { note } from "./widgets.js";

const ICONS = {
  overview: "M3 3h6v8H3zM11 3h6v5h-6zM11 10h6v7h-6zM3 13h6v4H3z",
  topics: "M3 5h14M3 10h14M3 15h9",
  groups: "M7 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2 17c0-3 2-5 5-5s5 2 5 5M13 9.2a2.6 2.6 0 1 0-1-5M14.500 12.300c2.100.5 3.500 2.200 3.500 4.700",
  records: "M4 3h12v14H4zM7 7h6M7 10h6M7 13h4",
  internals: "M10 3v3M10 14v3M3 10h3M14 10h3M5 5l2 2M13 13l2 2M15 5l-2 2M7 13l-2 2M10 12a2 2 0 1 0 0-4 2 2 0 0 0 0 4z",
  transactions: "M4 7h11l-3-3M16 13H5l3 3",
};
const NAV = [
  ["overview", "Overview", "#/"],
  ["topics", "Topics", "#/topics"],
  ["groups", "Groups", "#/groups"],
  ["transactions", "Transactions", "#/transactions"],
  ["records", "Records", "#/records"],
  ["internals", "Internals", "#/internals"],
];

const dark = matchMedia("(prefers-color-scheme: dark)");

export function applyTheme() {
  const chosen = localStorage.getItem("odradek.theme");
  document.documentElement.dataset.theme = chosen ?? (dark.matches ? "dark" : "light");
}

export function toggleTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("odradek.theme", next);
  applyTheme();
}

dark.addEventListener("change", applyTheme);

function icon(name) {
  return s("svg", { viewBox: "0 0 20 20", fill: "none", stroke: "currentColor", "stroke-width": "1.5", "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" }, s("path", { d: ICONS[name] }));
}

export function brand() {
  return h("a", { class: "brand", href: "#/" },
    s("svg", { viewBox: "0 0 32 32", fill: "currentColor", "aria-hidden": "true" },
      s("path", { d: "M16 3.5l3.100 7.700 8.100-1.700-4.900 6.600 4.900 6.600-8.100-1.700L16 28.500l-3.100-7.500-8.100 1.700 4.900-6.600-4.900-6.600 8.100 1.700z" })),
    "Odradek");
}

export function shell(session) {
  const main = h("main", { id: "main", tabindex: "-1" });
  const links = NAV.map(([key, label, address]) => h("a", { href: address, "data-key": key }, icon(key), h("span", null, label)));
  const rail = h("div", { class: "rail" }, brand(), h("nav", { "aria-label": "Views" }, links),
    h("div", { class: "rail-end" },
      h("div", { class: "row wide" }, h("span", null, `Served by broker ${session.broker}`), h("span", { class: "faint" }, session.version)),
      session.write ? h("div", { class: "row wide" }, h("span", { class: "warn" }, "Changes are allowed here")) : null,
      session.user ? h("div", { class: "row wide" }, h("span", { class: "clip", title: session.user }, session.user), h("button", { type: "button", onclick: logout }, "Log out")) : null,
      h("div", { class: "row" },
        h("button", { type: "button", class: "quiet wide", onclick: help, title: "Keys (?)" }, "Keys"),
        h("button", { type: "button", class: "quiet", onclick: toggleTheme, title: "Light or dark (d)" }, "Light / dark"))));
  return { element: h("div", { class: "shell" }, rail, main), main, mark: () => mark(links) };
}

function mark(links) {
  const first = current().path.split("/")[1] || "overview";
  const key = { brokers: "overview", partitions: "topics" }[first] ?? first;
  for (const link of links) {
    if (link.dataset.key === key) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

async function logout() {
  try {
    await post("logout");
  } finally {
    location.reload();
  }
}

export function showLogin(root, text) {
  const problem = h("div", { hidden: !text }, text ? note("warn", text) : null);
  const button = h("button", { class: "primary", type: "submit" }, "Log in");
  const form = h("form", { method: "post" }, brand(),
    h("p", { class: "muted" }, "This cluster shows each user what that user may see."),
    problem,
    h("label", null, "Name", h("input", { name: "user", autocomplete: "username", required: true, autocapitalize: "none", spellcheck: "false" })),
    h("label", null, "Password", h("input", { name: "password", type: "password", autocomplete: "current-password", required: true })),
    button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    const data = new FormData(form);
    try {
      await login(data.get("user"), data.get("password"));
      location.reload();
    } catch (error) {
      replace(problem, note("bad", error.message)).hidden = false;
      form.elements.password.value = "";
      form.elements.password.focus();
    } finally {
      button.disabled = false;
    }
  });
  replace(root, h("div", { class: "login" }, form));
  form.elements.user.focus();
}
