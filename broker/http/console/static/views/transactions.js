// All transactional ids.

import { get } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { count, NONE, plural } from "../lib/format.js";
import { address, current } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { choice, empty, filter, head, Notices, state } from "../lib/widgets.js";

export const title = "Transactions";
const KINDS = [["", "All states"], ["Ongoing", "Ongoing"], ["Empty", "Empty"], ["CompleteCommit", "Committed"], ["CompleteAbort", "Aborted"]];

export async function show({ page, main, life }) {
  main.className = "fixed";
  const notices = new Notices();
  let found = [];
  const open = (row) => address(`/transactions/${encodeURIComponent(row.id)}`);
  const table = new Table({
    label: "Transactions", life, key: (row) => row.id, open,
    foot: (rows) => (rows.length === found.length ? plural(rows.length, "transactional id") : `${count(rows.length)} of ${plural(found.length, "transactional id")}`),
    columns: [
      { key: "id", label: "Transactional id", width: "minmax(0, 3fr)", cell: (row) => h("a", { class: "name", href: open(row), title: row.id }, row.id) },
      { key: "state", label: "State", width: "minmax(130px, 1fr)", phoneWidth: "minmax(0, 1.3fr)", cell: (row) => transactionState(row.state) },
      { key: "producer", label: "Producer", width: "110px", phone: false, num: true, cell: (row) => (row.producer < 0 ? NONE : row.producer) },
      { key: "coordinator", label: "Coordinator", width: "110px", phone: false, num: true },
    ],
    all: () => found.length,
    empty: empty("There is no transactional id yet", "A producer with a transactional.id appears here after initTransactions()."),
  });
  const draw = () => table.setRows(chosen(found));
  replace(page, head({ title: "Transactions", tools: [filter(life, "Filter by id", draw), choice(life, "Which states", "kind", KINDS, draw)] }), notices.element, table.element);
  await life.every(4000, async () => {
    try {
      const answer = await get("transactions", null, life.signal);
      found = answer.transactions.map(([id, producer, name, coordinator]) => ({ id, producer, state: name, coordinator }));
      notices.show([notices.silent(answer.silent, "transactions")]);
      draw();
    } catch (error) {
      notices.failed(error);
    }
  });
}

function chosen(rows) {
  const { parameters } = current();
  const word = (parameters.get("q") ?? "").toLowerCase();
  const kind = parameters.get("kind") ?? "";
  return rows.filter((row) => row.id.toLowerCase().includes(word) && (!kind || row.state === kind));
}

export function transactionState(name) {
  if (name === "Ongoing") return state("warn", "Ongoing");
  if (name.startsWith("Prepare")) return state("warn", name === "PrepareCommit" ? "Committing" : "Aborting");
  if (name === "CompleteCommit") return state("good", "Committed");
  return state("idle", name === "CompleteAbort" ? "Aborted" : name);
}
