// One group: who is in it, and how far each partition is read.

import { get } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { count, NONE, plural } from "../lib/format.js";
import { topicAddress } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { empty, head, Notices, stats } from "../lib/widgets.js";
import { groupState } from "./groups.js";

export const title = "Group";

export async function show({ page, life, args, facts }) {
  const { id } = args;
  const notices = new Notices();
  const numbers = h("div");
  let latest = null;
  let names = new Map();
  const members = new Table({
    label: "Members", life, short: true, fixed: true, key: (row) => row.id,
    columns: [
      { key: "client", label: "Client", width: "minmax(0, 1fr)", cell: (row) => h("span", { class: "name", title: row.client }, row.client) },
      { key: "id", label: "Member", width: "minmax(0, 2fr)", phone: false, cell: (row) => h("span", { class: "mono muted", title: row.id }, row.instance ? `${row.instance} (static)` : row.id) },
      { key: "host", label: "Host", width: "minmax(0, 0.8fr)", cell: (row) => h("span", { class: "mono muted" }, row.host) },
      { key: "partitions", label: "Partitions", width: "84px", num: true, cell: (row) => count(row.partitions) },
    ],
    empty: empty("Nobody is in this group", "Its offsets are kept; a consumer with this group.id goes on from there."),
  });
  const offsets = new Table({
    label: "Offsets", life, short: false, key: (row) => `${row.topic}-${row.partition}`, order: "-lag",
    foot: (rows) => plural(rows.length, "partition"),
    columns: [
      { key: "topic", label: "Topic", width: "minmax(0, 2fr)", cell: (row) => h("a", { class: "name", href: topicAddress(row.topic) }, row.topic) },
      { key: "partition", label: "Partition", width: "80px", phoneWidth: "58px", num: true },
      { key: "offset", label: "Committed", width: "minmax(84px, 0.7fr)", phone: false, num: true, cell: (row) => count(row.offset) },
      { key: "end", label: "End", width: "minmax(84px, 0.7fr)", phone: false, num: true, cell: (row) => count(row.end) },
      { key: "lag", label: "Lag", width: "minmax(70px, 0.6fr)", phoneWidth: "72px", num: true, cell: (row) => count(row.lag) },
      { key: "owner", label: "Read by", width: "minmax(0, 1.2fr)", phone: false, cell: (row) => (row.owner ? names.get(row.owner) ?? row.owner : h("span", { class: "faint" }, "nobody")) },
    ],
    empty: empty("This group has committed no offsets", "They appear here as soon as one of its members commits."),
  });
  offsets.element.classList.add("tall");
  const tools = facts.write ? h("button", { type: "button", onclick: async () => (await import("./actions.js")).resetOffsets(id, latest, load) }, "Reset offsets") : null;
  const sub = h("span");
  replace(page, head({ crumb: ["Groups", "#/groups"], title: id, sub, tools }), notices.element, numbers,
    h("section", { class: "section" }, h("h2", null, "Members"), members.element),
    h("section", { class: "section" }, h("h2", null, "Offsets"), offsets.element));

  async function load() {
    try {
      latest = await get("group", { id }, life.signal);
    } catch (error) {
      if (error.status === 404 || error.status === 403) {
        replace(page, head({ crumb: ["Groups", "#/groups"], title: id }), empty(error.message, h("a", { href: "#/groups" }, "All groups")));
        life.end();
        return;
      }
      notices.failed(error);
      return;
    }
    names = new Map(latest.members.map((member) => [member.id, member.client]));
    const rows = latest.offsets.map(([topic, partition, offset, end, owner]) => ({
      topic, partition, offset, end, owner, lag: offset === null || end === null ? null : Math.max(0, end - offset),
    }));
    const known = rows.filter((row) => row.lag !== null);
    const worst = known.reduce((most, row) => Math.max(most, row.lag), 0);
    const strategy = latest.strategy === "-" ? null : latest.strategy || null;
    replace(sub, groupState(latest.state));
    notices.show([latest.left_out ? ["warn", `${count(latest.left_out)} more partitions are not shown.`] : null]);
    replace(numbers, stats([
      ["Lag", known.length ? count(known.reduce((sum, row) => sum + row.lag, 0)) : NONE, "records still to read"],
      ["Furthest behind", known.length ? count(worst) : NONE, "one partition"],
      ["Members", count(latest.members.length), latest.type === "consumer" ? "consumer protocol" : "classic protocol"],
      ["Coordinator", latest.coordinator, "broker"],
      ["Assignor", strategy ?? NONE, strategy ? null : "nobody to assign to", "text"],
    ]));
    members.setRows(latest.members);
    offsets.setRows(rows);
  }

  await life.every(3000, load);
}
