// One topic: its partitions, and its configuration.

import { get } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { bytes, count, NONE, plural } from "../lib/format.js";
import { address, current, topicAddress } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { empty, head, leader, Notices, replicas, stats, tabs } from "../lib/widgets.js";
import { configTable } from "./configs.js";
import { partitionState } from "./partitions.js";

export const title = "Topic";

export async function show({ page, life, args, facts }) {
  const { name } = args;
  const tab = current().parameters.get("tab") ?? "partitions";
  const notices = new Notices();
  const numbers = h("div");
  let latest = null;
  const table = new Table({
    label: "Partitions", life, short: true, fixed: false, key: (row) => row.partition,
    open: (row) => address("/records", { topic: name, partition: row.partition, start: "end" }),
    columns: [
      { key: "partition", label: "Partition", width: "76px", phoneWidth: "64px", num: true },
      { key: "state", label: "State", width: "minmax(110px, 1fr)", phone: false, cell: partitionState, sort: false },
      { key: "leader", label: "Leader", width: "70px", phone: false, num: true, cell: (row) => leader(row.leader) },
      { key: "replicas", label: "Replicas", width: "minmax(96px, 1fr)", phoneWidth: "minmax(76px, 1fr)", sort: false, cell: replicas },
      { key: "first", label: "First", width: "minmax(80px, 0.8fr)", phone: false, num: true, cell: (row) => count(row.first) },
      { key: "end", label: "End", width: "minmax(80px, 0.8fr)", num: true, cell: (row) => count(row.end) },
      { key: "size", label: "Size", width: "90px", phone: false, num: true, value: sizeOf, cell: (row) => bytes(sizeOf(row)) },
      { key: "lag", label: "Behind", width: "84px", num: true, phone: false, value: lagOf, cell: (row) => count(lagOf(row)) },
    ],
    empty: empty("This topic has no partitions"),
  });
  const configs = configTable(life, () => latest?.configs, facts.write ? async (row) => (await import("./actions.js")).alterConfig(name, row, load) : null);
  const tools = [
    h("a", { class: "button", href: address("/records", { topic: name, start: "end" }) }, "Records"),
    facts.write ? h("button", { type: "button", onclick: async () => (await import("./actions.js")).deleteRecords(name, latest, load) }, "Delete records") : null,
    facts.write ? h("button", { type: "button", class: "danger", onclick: async () => (await import("./actions.js")).deleteTopic(name) }, "Delete topic") : null,
  ];
  const sub = h("span", { class: "mono faint" });
  replace(page, head({ crumb: ["Topics", "#/topics"], title: name, sub, tools }), notices.element, numbers,
    tabs([["partitions", "Partitions", topicAddress(name)], ["configs", "Configuration", topicAddress(name, { tab: "configs" })]], tab),
    tab === "configs" ? configs.element : table.element);
  async function load() {
    try {
      latest = await get("topic", { name }, life.signal);
    } catch (error) {
      if (error.status === 404 || error.status === 403) {
        replace(page, head({ crumb: ["Topics", "#/topics"], title: name }), empty(error.message, h("a", { href: "#/topics" }, "All topics")));
        life.end();
        return;
      }
      notices.failed(error);
      return;
    }
    const { partitions } = latest;
    const known = partitions.filter((each) => each.first !== null && each.end !== null);
    const sum = (of) => partitions.reduce((total, row) => total + (of(row) ?? 0), 0);
    const isSized = partitions.some((row) => row.copies.length);
    const behind = partitions.filter((row) => row.isr.length < row.replicas.length).length;
    sub.textContent = latest.internal ? "internal topic" : "";
    notices.show([notices.silent(latest.silent, "sizes and lags")]);
    replace(numbers, stats([
      ["Partitions", count(partitions.length), plural(Math.max(0, ...partitions.map((row) => row.replicas.length)), "replica") + " each"],
      ["Offsets held", known.length ? count(known.reduce((total, row) => total + row.end - row.first, 0)) : NONE, known.length < partitions.length ? `of ${known.length} partitions` : "from first to end"],
      ["Size", isSized ? bytes(sum(sizeOf)) : NONE, isSized ? "of one copy" : "needs Describe on the cluster"],
      ["In sync", count(partitions.length - behind), behind ? `${count(behind)} behind` : "all partitions", behind ? "warn" : null],
    ]));
    table.setRows(partitions);
    configs.draw();
  }

  await life.every(4000, load);
}

const copyOf = (row, id) => row.copies.find(([broker]) => broker === id);

function sizeOf(row) {
  return (copyOf(row, row.leader) ?? row.copies[0])?.[2] ?? null;
}

// Records that the follower that is furthest behind has still to copy, as its broker says.
function lagOf(row) {
  const lags = row.copies.filter(([broker]) => broker !== row.leader).map(([, , , lag]) => lag);
  return lags.length ? Math.max(...lags) : null;
}
