// A configuration: what somebody has set comes first.

import { h } from "../lib/dom.js";
import { Table } from "../lib/table.js";
import { current } from "../lib/router.js";
import { empty, filter, note, tag } from "../lib/widgets.js";
import { replace } from "../lib/dom.js";

export function configTable(life, read, alter) {
  const table = new Table({
    label: "Configuration", life, short: true, fixed: true, key: (row) => row.name,
    columns: [
      { key: "name", label: "Key", width: "minmax(0, 1.3fr)", cell: (row) => h("span", { class: isSet(row) ? "name" : "muted", title: row.about ?? row.name }, row.name) },
      { key: "value", label: "Value", width: "minmax(0, 1fr)", cell: (row) => h("span", { class: "mono", title: row.value ?? "" }, row.sensitive ? "hidden" : (row.value ?? "")) },
      { key: "source", label: "From", width: "minmax(0, 0.6fr)", phone: false, cell: (row) => (isSet(row) ? tag(row.source) : h("span", { class: "faint" }, row.source)) },
      ...(alter ? [{ key: "alter", label: "", width: "76px", num: true, cell: (row) => (row.read_only ? "" : h("button", { type: "button", class: "quiet", onclick: () => alter(row) }, "Change")) }] : []),
    ],
    empty: empty("No key fits the filter"),
  });
  const problem = h("div", { hidden: true });
  const draw = () => {
    const found = read();
    if (!found) return;
    problem.hidden = Array.isArray(found);
    table.element.hidden = !Array.isArray(found);
    if (!Array.isArray(found)) {
      replace(problem, note("warn", found));
      return;
    }
    const word = (current().parameters.get("q") ?? "").toLowerCase();
    const rows = found.filter((row) => row.name.includes(word));
    rows.sort((a, b) => isSet(b) - isSet(a));
    table.setRows(rows);
  };
  const element = h("div", { class: "section" }, h("div", { class: "tools" }, filter(life, "Filter by key", draw)), problem, table.element);
  return { element, draw };
}

const isSet = (row) => row.source !== "default";
