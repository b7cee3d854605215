// The record browser. Everything that is asked for stands in the address; contents are text and never anything else.

import { get, post } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { count, NONE, plural, time } from "../lib/format.js";
import { current, setParameters } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { empty, head, Notices } from "../lib/widgets.js";
import { detail } from "./record.js";
import { form, question } from "./record_form.js";

export const title = "Records";
const LIMIT = 100;
const KEPT = 2000;
const TAIL_MS = 1000;

export async function show({ page, main, life }) {
  main.className = "fixed";
  const notices = new Notices();
  const found = { rows: [], answer: null, scanned: 0 };
  const aside = h("aside", { class: "detail", hidden: true, tabindex: "-1", "aria-label": "Record" });
  let asked = null;
  const table = new Table({
    label: "Records", life, fixed: true, key: idOf, open: (row) => (openRecord(row), null),
    onHere: (row) => !aside.hidden && row && openRecord(row),
    columns: [
      { key: "time", label: "Time", width: "184px", phone: false, cell: (row) => h("span", { class: "mono muted" }, time(row.time)) },
      { key: "partition", label: "Part.", width: "44px", phoneWidth: "36px", num: true },
      { key: "offset", label: "Offset", width: "84px", phoneWidth: "64px", num: true, cell: (row) => count(row.offset) },
      { key: "key", label: "Key", width: "minmax(0, 1fr)", cell: (row) => preview(row.key) },
      { key: "value", label: "Value", width: "minmax(0, 3fr)", phoneWidth: "minmax(0, 1.6fr)", cell: (row) => preview(row.value) },
    ],
    empty: h("div"),
  });
  const older = h("button", { type: "button", onclick: () => turn("older") }, "Older");
  const newer = h("button", { type: "button", onclick: () => turn("newer") }, "Newer");
  const live = h("button", { type: "button", class: "live", "aria-pressed": "false", onclick: () => setLive(!isLive()) }, h("i", { "aria-hidden": "true" }), "Live");
  const said = h("span", { class: "muted said-found", role: "status" });
  const controls = form(life, { names: topicNames, ask: () => ask("anew") });
  replace(page, head({ title: "Records" }), controls.element, notices.element,
    h("div", { class: "tools" }, live, older, newer, said),
    h("div", { class: "records" }, table.element, aside));

  async function topicNames() {
    return (await get("topics", null, life.signal)).topics.map(([name, , partitions]) => [name, partitions]);
  }

  const isLive = () => current().parameters.get("live") === "1";

  function setLive(on) {
    setParameters({ live: on ? "1" : "" });
    live.setAttribute("aria-pressed", String(on));
    if (on) ask("tail");
  }

  function isBackwards() {
    return (current().parameters.get("start") ?? "end") === "end";
  }

  async function ask(how) {
    const wanted = question(LIMIT);
    if (!wanted.topic) {
      blank("Choose a topic", "Its records appear here: the newest first, or from an offset or a time on.");
      return;
    }
    asked?.abort();
    const mine = new AbortController();
    asked = mine;
    life.signal.addEventListener("abort", () => mine.abort(), { once: true });
    if (how !== "anew" && found.answer) {
      wanted.start = "cursors";
      wanted.cursors = how === "older" ? before(found.answer) : found.answer.cursors;
    }
    controls.busy(how !== "tail");
    try {
      const answer = await post("records", wanted, mine.signal);
      if (mine.signal.aborted) return;
      take(answer, how);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === 401) location.reload();
      notices.show([["bad", error.message]]);
      if (how === "anew") blank("Nothing to show", error.message);
    } finally {
      if (asked === mine) controls.busy(false);
    }
  }

  function take(answer, how) {
    const adds = how === "tail" || (how === "newer" && controls.isFiltered());
    found.answer = adds && found.answer ? { ...answer, begins: found.answer.begins } : answer;
    found.scanned = adds ? found.scanned + answer.scanned : answer.scanned;
    const fresh = isBackwards() ? [...answer.records].reverse() : answer.records;
    if (!adds) found.rows = fresh;
    else if (fresh.length) found.rows = isBackwards() ? [...fresh, ...found.rows].slice(0, KEPT) : [...found.rows, ...fresh].slice(-KEPT);
    const problems = Object.entries(answer.problems).map(([partition, text]) => ["warn", `Partition ${partition}: ${text}`]);
    notices.show([...problems, answer.left_out ? ["warn", `${plural(answer.left_out, "partition")} more: choose one to see its records.`] : null]);
    const hasOlder = Object.entries(found.answer.begins).some(([partition, offset]) => offset > (answer.firsts[partition] ?? 0));
    older.disabled = !hasOlder;
    newer.disabled = !answer.more;
    newer.textContent = controls.isFiltered() ? "Search on" : "Newer";
    const total = Object.values(answer.ends).reduce((sum, offset) => sum + offset, 0) - Object.values(answer.firsts).reduce((sum, offset) => sum + offset, 0);
    said.textContent = controls.isFiltered()
      ? `${plural(found.rows.length, "record")} found in ${count(found.scanned)} looked at${answer.more ? "" : ", to the end"}`
      : `${plural(found.rows.length, "record")} of ${count(total)} offsets`;
    if (!found.rows.length) {
      const nothing = total === 0 ? ["This topic has no records", "Write one: odradek produce TOPIC, or any producer; with Live on it appears at once."]
        : answer.more ? ["Nothing found so far", "Search on, or ask for less."] : ["Nothing fits", "Begin earlier, or ask for less: key, value and header all have to fit."];
      blank(...nothing);
    }
    table.setRows(found.rows);
    document.body.dataset.records = `${found.rows.length} ${how}`;
  }

  function blank(...lines) {
    replace(table.blank, empty(...lines));
    if (!found.rows.length || !question(LIMIT).topic) table.setRows([]);
  }

  const turn = (how) => {
    if (how === "older") setLive(false);
    table.body.scrollTop = 0;
    return ask(how);
  };

  function openRecord(row) {
    setParameters({ record: idOf(row) });
    const wanted = { ...question(1), partition: row.partition, start: "offset", value: row.offset };
    for (const name of ["key", "text", "header"]) delete wanted[name];
    detail(aside, row, () => post("records", wanted, life.signal), close);
    aside.parentElement.classList.add("open");
    table.setNarrow(true);
    if (matchMedia("(max-width: 720px)").matches) aside.focus();
  }

  function close() {
    aside.hidden = true;
    aside.parentElement.classList.remove("open");
    table.setNarrow(false);
    setParameters({ record: "" });
    table.body.focus();
  }

  life.on(document, "keydown", (event) => event.key === "Escape" && !aside.hidden && !event.target.closest("input, select, textarea") && close());
  older.disabled = newer.disabled = true;
  live.setAttribute("aria-pressed", String(isLive()));
  await controls.load();
  await ask("anew");
  const wanted = current().parameters.get("record");
  const row = found.rows.find((each) => idOf(each) === wanted);
  if (row) openRecord(row);
  life.every(TAIL_MS, async () => {
    if (isLive() && found.answer && question(LIMIT).topic) await ask("tail");
  });
}

const idOf = (row) => `${row.partition}-${row.offset}`;

// A page back: as far as a page goes, spread over the partitions.
function before(answer) {
  const partitions = Object.keys(answer.begins);
  const step = Math.ceil(LIMIT / Math.max(1, partitions.length));
  return Object.fromEntries(partitions.map((each) => [each, Math.max(answer.firsts[each] ?? 0, answer.begins[each] - step)]));
}

function preview(part) {
  if (part === null) return h("span", { class: "faint" }, "null");
  if (part.size === 0) return h("span", { class: "faint" }, "empty");
  const text = part.form === "hex" ? part.text.split("\n", 1)[0].replace(/^\w+ {2}/, "") : part.text;
  return h("span", { class: "mono" }, text.slice(0, 240).replace(/\s+/g, " "));
}
