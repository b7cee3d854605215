// The cluster at a glance: numbers, and a row for each broker.

import { get } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { bytes, count, NONE } from "../lib/format.js";
import { address } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { head, Notices, state, stats, tag } from "../lib/widgets.js";

export const title = "Overview";

export async function show({ page, life, facts }) {
  const numbers = h("div");
  const sub = h("span");
  const notices = new Notices();
  let sizes = null;
  const table = new Table({
    label: "Brokers", life, short: true, key: (row) => row.id, open: (row) => address(`/brokers/${row.id}`),
    columns: [
      { key: "id", label: "Broker", width: "minmax(110px, 0.9fr)", phoneWidth: "minmax(76px, 1fr)", cell: (row) => h("a", { href: address(`/brokers/${row.id}`), class: "name" }, `Broker ${row.id}`) },
      { key: "host", label: "Address", width: "minmax(130px, 1.2fr)", phone: false, cell: (row) => (row.host ? h("span", { class: "mono muted" }, `${row.host}:${row.port}`) : NONE) },
      { key: "rack", label: "Rack", width: "80px", phone: false, cell: (row) => row.rack ?? NONE },
      { key: "state", label: "State", width: "minmax(90px, 1fr)", phoneWidth: "minmax(152px, 2fr)", value: (row) => (row.alive ? (row.lagging ? 1 : 0) : 2), cell: brokerState },
      { key: "leaders", label: "Leads", width: "80px", phoneWidth: "52px", num: true, cell: (row) => count(row.leaders) },
      { key: "replicas", label: "Replicas", width: "80px", num: true, phone: false, cell: (row) => count(row.replicas) },
      { key: "size", label: "Size", width: "90px", phone: false, num: true, value: (row) => sizes?.[row.id] ?? null, cell: (row) => bytes(sizes?.[row.id]) },
    ],
  });
  replace(page, head({ title: "Overview", sub }), notices.element, numbers, h("section", { class: "section" }, h("h2", null, "Brokers"), table.element),
    peers(facts));

  await life.every(4000, async () => {
    try {
      const seen = await get("overview", null, life.signal);
      const away = seen.brokers.filter((broker) => !broker.alive).map((broker) => broker.id);
      notices.show([
        away.length ? ["bad", `${away.length === 1 ? "Broker" : "Brokers"} ${away.join(", ")} ${away.length === 1 ? "is" : "are"} away: what is led there has moved to others, as far as there were replicas in sync.`] : null,
        seen.controller < 0 ? ["bad", "The cluster has no controller at the moment."] : null,
      ]);
      sub.textContent = `Cluster ${seen.cluster_id}`;
      replace(numbers, stats([
        ["Brokers", count(seen.brokers.length - away.length), away.length ? `${away.length} away` : "all there", away.length ? "bad" : null],
        ["Controller", seen.controller < 0 ? NONE : seen.controller, "broker"],
        ["Topics", count(seen.topics), "with internal ones"],
        ["Partitions", count(seen.partitions), `${count(seen.brokers.reduce((sum, broker) => sum + broker.replicas, 0))} replicas`],
        ["Under-replicated", count(seen.under_replicated), seen.under_replicated ? "not all in sync" : "all in sync", seen.under_replicated ? "warn" : null],
        ["Without a leader", count(seen.offline), seen.offline ? "cannot be used" : "all led", seen.offline ? "bad" : null],
      ]));
      table.setRows(seen.brokers);
    } catch (error) {
      notices.failed(error);
    }
  });
  life.every(20000, async () => {
    try {
      sizes = (await get("sizes", null, life.signal)).brokers;
      table.refresh();
    } catch {
      sizes = null;
    }
  });
}

function brokerState(row) {
  const kind = !row.alive ? state("bad", "away") : row.lagging ? state("warn", `${count(row.lagging)} behind`) : state("good", "in sync");
  return row.controller ? h("span", { class: "tagged" }, kind, tag("controller")) : kind;
}

function peers(facts) {
  const others = Object.entries(facts.peers ?? {}).filter(([id]) => Number(id) !== facts.broker);
  if (!others.length) return null;
  return h("p", { class: "muted" }, "Each broker shows its own internals in its own console: ",
    others.map(([id, url], index) => [index ? ", " : "", h("a", { href: url }, `broker ${id}`)]), ".");
}
