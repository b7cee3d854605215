// Keys that work everywhere. None is taken while somebody writes.

import { h } from "./dom.js";

const GO = { o: "/", t: "/topics", p: "/partitions", g: "/groups", x: "/transactions", r: "/records", i: "/internals" };
const HELP = [
  ["/", "Filter what is shown"],
  ["g t", "Topics; also g o overview, g p partitions, g g groups, g x transactions, g r records, g i internals"],
  ["↑ ↓", "Move in a table; j and k, Page, Home and End too"],
  ["Enter", "Open the row"],
  ["u", "Up: to the list that this came from"],
  ["d", "Light or dark"],
  ["?", "These keys"],
];

export function startKeyboard({ theme, up }) {
  let waitsForPlace = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const writes = event.target.closest("input, textarea, select");
    if (writes) {
      if (event.key === "Escape") event.target.blur();
      if (event.key === "ArrowDown" && event.target.matches("[data-filter]")) focusTable();
      return;
    }
    if (performance.now() < waitsForPlace) {
      waitsForPlace = 0;
      if (event.key in GO) location.hash = `#${GO[event.key]}`;
      return;
    }
    const actions = {
      "/": () => document.querySelector("[data-filter]")?.focus(),
      g: () => { waitsForPlace = performance.now() + 1200; },
      d: theme,
      u: up,
      "?": help,
      ArrowDown: focusTable,
      j: focusTable,
    };
    if (event.key in actions) {
      event.preventDefault();
      actions[event.key]();
    }
  });
}

function focusTable() {
  document.querySelector(".tbody")?.focus({ focusVisible: true });
}

export function help() {
  const dialog = h("dialog", { "aria-label": "Keys" }, h("div", { class: "dialog" },
    h("h2", null, "Keys"),
    h("dl", { class: "keys" }, HELP.map(([keys, text]) => [h("dt", null, keys.split(" ").map((key) => h("kbd", null, key))), h("dd", null, text)])),
    h("div", { class: "dialog-end" }, h("button", { type: "button", onclick: () => dialog.close() }, "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
