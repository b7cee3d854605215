// All partitions of all topics.

import { get } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { current, topicAddress } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { choice, empty, filter, head, leader, Notices, replicas, state, tabs } from "../lib/widgets.js";
import { TABS } from "./topics.js";

export const title = "Partitions";
const KINDS = [["", "All partitions"], ["behind", "Under-replicated"], ["offline", "Without a leader"], ["moved", "Not led by the first replica"]];

export async function show({ page, main, life }) {
  main.className = "fixed";
  const notices = new Notices();
  let partitions = [];
  const table = new Table({
    label: "Partitions", life, key: (row) => `${row.topic}-${row.partition}`, open: (row) => topicAddress(row.topic),
    foot: (rows) => (rows.length === partitions.length ? plural(rows.length, "partition") : `${count(rows.length)} of ${plural(partitions.length, "partition")}`),
    columns: [
      { key: "topic", label: "Topic", width: "minmax(0, 3fr)", cell: (row) => h("a", { class: "name", href: topicAddress(row.topic), title: row.topic }, row.topic) },
      { key: "partition", label: "Partition", width: "84px", phoneWidth: "56px", num: true },
      { key: "state", label: "State", width: "minmax(110px, 1fr)", phone: false, value: trouble, cell: partitionState },
      { key: "leader", label: "Leader", width: "80px", phone: false, num: true, cell: (row) => leader(row.leader) },
      { key: "epoch", label: "Epoch", width: "80px", phone: false, num: true, cell: (row) => count(row.epoch) },
      { key: "replicas", label: "Replicas", width: "minmax(110px, 1fr)", phoneWidth: "100px", sort: false, cell: replicas },
    ],
    all: () => partitions.length,
    empty: empty("There is no partition yet", "The cluster has no topics."),
  });
  const draw = () => table.setRows(chosen(partitions));
  replace(page, head({ title: "Topics", tools: [filter(life, "Filter by topic", draw), choice(life, "Which partitions", "kind", KINDS, draw)] }),
    tabs(TABS, "partitions"), notices.element, table.element);
  await life.every(8000, async () => {
    try {
      const found = await get("partitions", null, life.signal);
      partitions = found.partitions.map(([name, partition, leads, epoch, replicas, isr]) => ({ topic: found.names[name], partition, leader: leads, epoch, replicas, isr }));
      notices.show([]);
      draw();
    } catch (error) {
      notices.failed(error);
    }
  });
}

const trouble = (row) => (row.leader < 0 ? 3 : row.isr.length < row.replicas.length ? 2 : row.leader !== row.replicas[0] ? 1 : 0);

function chosen(partitions) {
  const { parameters } = current();
  const word = (parameters.get("q") ?? "").toLowerCase();
  const wanted = { behind: (n) => n >= 2, offline: (n) => n === 3, moved: (n) => n === 1 }[parameters.get("kind") ?? ""];
  return partitions.filter((row) => row.topic.toLowerCase().includes(word) && (!wanted || wanted(trouble(row))));
}

export function partitionState(row) {
  const kind = trouble(row);
  if (kind === 3) return state("bad", "no leader");
  if (kind === 2) return state("warn", `${row.isr.length} of ${row.replicas.length} in sync`);
  return state("good", "in sync");
}
