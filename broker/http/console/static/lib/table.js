// A table of any length: the rows in sight are elements, all others are numbers in an array.
//
// columns: { key, label, width, num, phone, value(row), cell(row) }; `phone: false` leaves a column out on a phone,
// `sort: false` makes it no button. A cell is a text or a node. Order and place come from the address and go there.

import { h, replace } from "./dom.js";
import { current, setParameters } from "./router.js";
import { empty } from "./widgets.js";

const SPARE = 6;
const phone = matchMedia("(max-width: 720px)");
const natural = new Intl.Collator("en", { numeric: true });

function compare(left, right) {
  if (left === right) return 0;
  if (left === null || left === undefined) return 1;
  if (right === null || right === undefined) return -1;
  return typeof left === "number" && typeof right === "number" ? left - right : natural.compare(left, right);
}

export class Table {
  // options: { label, columns, life, open(row) -> address, key(row), empty, all(), foot(rows), order, short }; `all` is how
  // many rows there are before a filter, so that one that nothing fits is not taken for a cluster with nothing in it.
  constructor(options) {
    this.options = options;
    this.rows = [];
    this.shown = new Map();
    this.spare = [];
    this.here = -1;
    this.order = options.fixed ? null : (current().parameters.get("sort") ?? options.order ?? null);
    this.head = h("div", { class: "thead row", role: "row" });
    this.space = h("div", { class: "tspace", role: "presentation" });
    this.body = h("div", { class: "tbody", tabindex: "0", role: "presentation", "aria-label": options.label }, this.space);
    this.foot = h("div", { class: "tfoot", hidden: true });
    this.blank = h("div", { class: "tblank", hidden: true }, options.empty ?? "");
    this.element = h(
      "div",
      { class: `table${options.short ? " short" : ""}`, role: "table", "aria-label": options.label },
      this.head, this.body, this.blank, this.foot,
    );
    const { life } = options;
    life.on(this.body, "scroll", () => this.later(), { passive: true });
    life.on(this.body, "keydown", (event) => this.key(event));
    life.on(this.body, "focus", () => this.body.matches(":focus-visible") && this.here < 0 && this.move(0));
    life.on(this.space, "click", (event) => this.click(event));
    life.on(phone, "change", () => this.columnsChanged());
    const watcher = new ResizeObserver(() => this.later());
    watcher.observe(this.body);
    life.signal.addEventListener("abort", () => watcher.disconnect());
    this.columnsChanged();
  }

  columnsChanged() {
    const small = phone.matches || this.narrow;
    this.columns = this.options.columns.filter((column) => !(small && column.phone === false));
    const widths = this.columns.map((column) => (small && column.phoneWidth) || column.width || "minmax(0, 1fr)");
    this.element.style.setProperty("--columns", widths.join(" "));
    this.shown.clear();
    this.spare = [];
    this.space.replaceChildren();
    this.drawHead();
    this.later();
  }

  // As on a phone, for as long as something stands beside the table.
  setNarrow(on) {
    if (Boolean(this.narrow) === on) return;
    this.narrow = on;
    this.columnsChanged();
  }

  drawHead() {
    const [key, down] = this.order?.startsWith("-") ? [this.order.slice(1), true] : [this.order, false];
    const sorted = (column) => (column.key !== key ? "none" : down ? "descending" : "ascending");
    replace(
      this.head,
      this.columns.map((column) => {
        const label = column.sort === false || this.options.fixed
          ? h("span", { class: "plain" }, column.label)
          : h("button", { type: "button", onclick: () => this.sortBy(column) }, column.label,
            h("span", { class: "mark", "aria-hidden": "true" }, sorted(column) === "ascending" ? "▲" : "▼"));
        return h("div", { class: `th clip${column.num ? " num" : ""}`, role: "columnheader", "aria-sort": sorted(column) }, label);
      }),
    );
  }

  sortBy(column) {
    const first = column.num ? `-${column.key}` : column.key;
    const second = column.num ? column.key : `-${column.key}`;
    this.order = this.order === first ? second : this.order === second ? null : first;
    setParameters({ sort: this.order });
    this.drawHead();
    this.setRows(this.unsorted);
  }

  setRows(rows) {
    const { key } = this.options;
    const before = this.here >= 0 && key ? key(this.rows[this.here] ?? {}) : null;
    this.unsorted = rows;
    this.rows = rows;
    if (this.order) {
      const down = this.order.startsWith("-");
      const column = this.options.columns.find((each) => each.key === this.order.replace(/^-/, ""));
      if (column) {
        const value = column.value ?? ((row) => row[column.key]);
        this.rows = [...rows].sort((a, b) => (down ? compare(value(b), value(a)) : compare(value(a), value(b))));
      }
    }
    if (before !== null) this.here = this.rows.findIndex((row) => key(row) === before);
    this.space.setAttribute("aria-rowcount", rows.length);
    const isEmpty = rows.length === 0;
    this.blank.hidden = !isEmpty;
    if (isEmpty && this.options.all) replace(this.blank, this.options.all() ? empty("Nothing fits", "Change what you filter by, to see more.") : this.options.empty);
    this.body.hidden = isEmpty;
    this.head.hidden = isEmpty;
    const text = this.options.foot?.(this.rows) ?? "";
    this.foot.hidden = !text;
    this.foot.textContent = text;
    this.draw(true);
  }

  // New values for the rows that are there, in the order that they have.
  refresh() {
    if (this.order) this.setRows(this.unsorted);
    else this.draw(true);
  }

  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw(false);
    });
  }

  draw(anew) {
    const height = parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 38;
    this.height = height;
    this.space.style.height = `${this.rows.length * height}px`;
    const all = this.options.short;
    const from = all ? 0 : Math.max(0, Math.floor(this.body.scrollTop / height) - SPARE);
    const seen = all ? this.rows.length : Math.ceil((this.body.clientHeight || 600) / height) + 2 * SPARE;
    const to = Math.min(this.rows.length, from + seen);
    this.element.classList.toggle("scrolls", !all && this.rows.length * height > this.body.clientHeight);
    for (const [index, element] of this.shown) {
      if (index < from || index >= to) {
        this.shown.delete(index);
        this.spare.push(element);
      }
    }
    for (let index = from; index < to; index += 1) {
      let element = this.shown.get(index);
      if (element && !anew) continue;
      if (!element) {
        element = this.spare.pop() ?? this.makeRow();
        this.shown.set(index, element);
        element.style.transform = `translateY(${index * height}px)`;
      }
      this.fillRow(element, index);
    }
    for (const element of this.spare) element.remove();
    this.spare.length = Math.min(this.spare.length, 2 * SPARE);
    this.options.onShow?.(this.rows.slice(from, to));
  }

  makeRow() {
    const cells = this.columns.map((column) => h("div", { class: `td${column.num ? " num" : ""}`, role: "cell" }));
    return h("div", { class: "row", role: "row" }, cells);
  }

  fillRow(element, index) {
    const row = this.rows[index];
    this.columns.forEach((column, place) => {
      const cell = element.children[place];
      const content = column.cell ? column.cell(row) : row[column.key];
      if (content instanceof Node) cell.replaceChildren(content);
      else if (cell.textContent !== String(content ?? "") || cell.firstElementChild) cell.textContent = String(content ?? "");
    });
    element.classList.toggle("link", Boolean(this.options.open));
    element.classList.toggle("here", index === this.here);
    element.setAttribute("aria-rowindex", index + 1);
    element.dataset.index = index;
    if (!element.isConnected) this.space.append(element);
  }

  click(event) {
    if (event.target.closest("a, button, input") || !this.options.open || String(getSelection())) return;
    const row = event.target.closest(".row");
    if (row) this.follow(Number(row.dataset.index));
  }

  follow(index) {
    const row = this.rows[index];
    if (!row || !this.options.open) return;
    const target = this.options.open(row);
    if (typeof target === "string") location.hash = target;
  }

  move(index) {
    if (!this.rows.length) return;
    const next = Math.max(0, Math.min(this.rows.length - 1, index));
    const old = this.shown.get(this.here);
    this.here = next;
    old?.classList.remove("here");
    const top = next * this.height;
    if (!this.options.short) {
      if (top < this.body.scrollTop) this.body.scrollTop = top;
      else if (top + this.height > this.body.scrollTop + this.body.clientHeight) {
        this.body.scrollTop = top + this.height - this.body.clientHeight;
      }
    }
    this.draw(false);
    this.shown.get(next)?.classList.add("here");
    this.options.onHere?.(this.rows[next]);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.body) return;
    const page = Math.max(1, Math.floor(this.body.clientHeight / this.height) - 1);
    const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.move(Math.min(this.rows.length, Math.max(0, this.here + steps[event.key])));
    else if (event.key === "Enter" && this.here >= 0) this.follow(this.here);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
