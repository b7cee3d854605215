// All groups. How far each is behind is asked for those in sight.

import { get } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { current, groupAddress } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { choice, empty, filter, head, Notices, state } from "../lib/widgets.js";

export const title = "Groups";
const KINDS = [["", "All states"], ["Stable", "Stable"], ["Empty", "Empty"], ["moving", "Rebalancing"]];
const AT_ONCE = 40;
const FRESH_MS = 5000;

export async function show({ page, main, life }) {
  main.className = "fixed";
  const notices = new Notices();
  let groups = [];
  const lags = new Map();
  let asking = false;
  const table = new Table({
    label: "Groups", life, key: (row) => row.id, open: (row) => groupAddress(row.id),
    foot: (rows) => (rows.length === groups.length ? plural(rows.length, "group") : `${count(rows.length)} of ${plural(groups.length, "group")}`),
    columns: [
      { key: "id", label: "Group", width: "minmax(0, 3fr)", cell: (row) => h("a", { class: "name", href: groupAddress(row.id), title: row.id }, row.id) },
      { key: "state", label: "State", width: "minmax(120px, 1fr)", phoneWidth: "minmax(0, 1.3fr)", cell: (row) => groupState(row.state) },
      { key: "type", label: "Protocol", width: "100px", phone: false },
      { key: "coordinator", label: "Coordinator", width: "104px", phone: false, num: true },
      { key: "partitions", label: "Partitions", width: "96px", phone: false, num: true, sort: false, cell: (row) => count(lags.get(row.id)?.value?.[1]) },
      { key: "lag", label: "Lag", width: "100px", phoneWidth: "72px", num: true, sort: false, cell: (row) => count(lags.get(row.id)?.value?.[0]) },
    ],
    onShow: (rows) => askLags(rows),
    all: () => groups.length,
    empty: empty("There is no group yet", "A group appears here once a consumer with its group.id has joined or committed. Try one with:", h("code", null, "kcat -b HOST:PORT -G my-group my-topic")),
  });
  const draw = () => table.setRows(chosen(groups));
  replace(page, head({ title: "Groups", tools: [filter(life, "Filter by id", draw), choice(life, "Which states", "kind", KINDS, draw)] }), notices.element, table.element);

  async function askLags(rows) {
    if (asking || life.signal.aborted) return;
    const now = performance.now();
    const wanted = rows.map((row) => row.id).filter((id) => !(now - (lags.get(id)?.at ?? -FRESH_MS) < FRESH_MS)).slice(0, AT_ONCE);
    if (!wanted.length) return;
    asking = true;
    try {
      const found = await get("lags", { groups: wanted.join("\n") }, life.signal);
      for (const id of wanted) lags.set(id, { at: performance.now(), value: found.lags[id] });
    } catch {
      for (const id of wanted) lags.set(id, { at: performance.now(), value: null });
    } finally {
      asking = false;
    }
    if (!life.signal.aborted) table.draw(true);
  }

  await life.every(5000, async () => {
    try {
      const found = await get("groups", null, life.signal);
      groups = found.groups.map(([id, type, groupState, coordinator]) => ({ id, type, state: groupState, coordinator }));
      notices.show([notices.silent(found.silent, "groups")]);
      draw();
    } catch (error) {
      notices.failed(error);
    }
  });
}

function chosen(groups) {
  const { parameters } = current();
  const word = (parameters.get("q") ?? "").toLowerCase();
  const kind = parameters.get("kind") ?? "";
  return groups.filter((row) => row.id.toLowerCase().includes(word) && (!kind || (kind === "moving" ? isMoving(row.state) : row.state === kind)));
}

const isMoving = (name) => !["Stable", "Empty", "Dead"].includes(name);

export function groupState(name) {
  if (name === "Stable") return state("good", "Stable");
  if (name === "Empty" || name === "Dead") return state("idle", name);
  return state("warn", name);
}
