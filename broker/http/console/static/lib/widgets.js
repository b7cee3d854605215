// The small parts that views share.

import { h, replace } from "./dom.js";
import { setParameters, current } from "./router.js";

const MARKS = { good: "●", warn: "▲", bad: "■", idle: "○" };

// A state has a shape beside its colour.
export function state(kind, label) {
  return h("span", { class: `state ${kind === "idle" ? "faint" : kind}` }, h("i", { "aria-hidden": "true" }, MARKS[kind]), label);
}

export const tag = (text) => h("span", { class: "tag" }, text);

export function stats(items) {
  return h("dl", { class: "stats" }, items.filter(Boolean).map(([label, value, note, kind]) =>
    h("div", { class: "stat" }, h("dt", null, label), h("dd", { class: kind ?? null, title: String(value) }, value), note ? h("small", null, note) : null)));
}

export function facts(items) {
  return h("dl", { class: "facts" }, items.map(([label, value]) => [h("dt", null, label), h("dd", null, value)]));
}

export function empty(title, ...lines) {
  return h("div", { class: "empty" }, h("strong", null, title), lines.map((line) => h("p", null, line)));
}

export function head({ crumb, title, sub, tools }) {
  return h("header", { class: "head" },
    h("div", { class: "title" },
      crumb ? h("div", { class: "crumb" }, h("a", { href: crumb[1] }, crumb[0])) : null,
      h("h1", null, title),
      sub ? h("div", { class: "sub" }, sub) : null),
    tools ? h("div", { class: "tools" }, tools) : null);
}

export function note(kind, ...content) {
  return h("div", { class: `note ${kind}-note`, role: "status" }, h("span", { class: "state" }, h("i", null, MARKS[kind])), h("span", null, content));
}

// What stands above a view while something is missing from it.
export class Notices {
  constructor() {
    this.element = h("div", { class: "section", hidden: true });
    this.text = "";
  }

  show(lines) {
    const found = lines.filter(Boolean);
    const text = JSON.stringify(found);
    if (text === this.text) return;
    this.text = text;
    this.element.hidden = found.length === 0;
    replace(this.element, found.map(([kind, line]) => note(kind, line)));
  }

  // A question that failed is told of, unless the view has ended; that a login is wanted is not the view's to say.
  failed(error) {
    if (error.name === "AbortError") return;
    if (error.status === 401) throw error;
    this.show([["bad", error.message]]);
  }

  silent(silent, what) {
    const names = Object.keys(silent ?? {});
    if (!names.length) return null;
    const reasons = [...new Set(Object.values(silent))];
    if (reasons.every((reason) => reason === "CLUSTER_AUTHORIZATION_FAILED")) return null;
    const who = names.length === 1 ? `Broker ${names[0]} does` : `Brokers ${names.join(", ")} do`;
    return ["warn", `${who} not answer, so ${what} from there are missing here. ${reasons[0]}`];
  }
}

// A filter whose text stands in the address.
export function filter(life, label, changed, name = "q") {
  const input = h("input", { type: "search", placeholder: label, "aria-label": label, value: current().parameters.get(name) ?? "", autocomplete: "off", spellcheck: "false", "data-filter": "" });
  let timer = 0;
  life.on(input, "input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      setParameters({ [name]: input.value });
      changed(input.value);
    }, 60);
  });
  return input;
}

export function choice(life, label, name, options, changed) {
  const value = current().parameters.get(name) ?? options[0][0];
  const select = h("select", { "aria-label": label }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
  life.on(select, "change", () => {
    setParameters({ [name]: select.value === options[0][0] ? "" : select.value });
    changed(select.value);
  });
  return select;
}

export function tabs(items, here) {
  return h("nav", { class: "tabs" }, items.map(([key, label, address]) =>
    h("a", { href: address, "aria-current": key === here ? "page" : null }, label)));
}

// A dialog with a form; `send(values)` may throw what the dialog then shows.
export function ask({ title, text, fields, action, danger, send }) {
  const problem = h("div", { hidden: true });
  const button = h("button", { class: danger ? "danger" : "primary", type: "submit" }, action);
  const form = h("form", { method: "dialog" },
    h("h2", null, title), text ? h("p", { class: "muted" }, text) : null, fields, problem,
    h("div", { class: "dialog-end" }, h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel"), button));
  const dialog = h("dialog", { "aria-label": title }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    try {
      await send(new FormData(form));
      dialog.close();
    } catch (error) {
      if (error.isPreview) return;
      replace(problem, note("bad", error.message));
      problem.hidden = false;
    } finally {
      button.disabled = false;
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export function field(label, attributes) {
  return h("label", null, label, h("input", { autocomplete: "off", spellcheck: "false", ...attributes }));
}

let saidTimer = 0;
export function say(text) {
  let place = document.getElementById("said");
  if (!place) {
    place = h("div", { id: "said", class: "said", role: "status" });
    document.body.append(place);
  }
  place.textContent = text;
  place.classList.add("there");
  clearTimeout(saidTimer);
  saidTimer = setTimeout(() => place.classList.remove("there"), 4000);
}

export function replicas(partition) {
  return h("span", { class: "replicas" }, partition.replicas.map((id) => {
    const away = !partition.isr.includes(id);
    const leads = id === partition.leader;
    return h("span", { class: `replica${leads ? " leader" : ""}${away ? " away" : ""}`, title: `broker ${id}: ${leads ? "leader" : away ? "not in sync" : "in sync"}` }, id);
  }));
}

export function leader(id) {
  return id < 0 ? state("bad", "none") : String(id);
}
