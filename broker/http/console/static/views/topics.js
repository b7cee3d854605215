// All topics.

import { get } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { bytes, count, NONE, plural } from "../lib/format.js";
import { current, setParameters, topicAddress } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { choice, empty, filter, head, Notices, state, tabs } from "../lib/widgets.js";

export const title = "Topics";
export const TABS = [["topics", "Topics", "#/topics"], ["partitions", "Partitions", "#/partitions"]];
const KINDS = [["", "All topics"], ["user", "Without internal ones"], ["trouble", "With trouble"]];

export async function show({ page, main, life, facts }) {
  main.className = "fixed";
  const notices = new Notices();
  let topics = [];
  let sizes = null;
  const table = new Table({
    label: "Topics", life, key: (row) => row.name, open: (row) => topicAddress(row.name),
    foot: (rows) => (rows.length === topics.length ? plural(topics.length, "topic") : `${count(rows.length)} of ${plural(topics.length, "topic")}`),
    columns: [
      { key: "name", label: "Topic", width: "minmax(0, 3fr)", cell: (row) => h("a", { class: "name", href: topicAddress(row.name), title: row.name }, row.name) },
      { key: "state", label: "State", width: "minmax(112px, 1fr)", phoneWidth: "minmax(76px, 1.2fr)", value: trouble, cell: topicState },
      { key: "partitions", label: "Partitions", width: "96px", phoneWidth: "68px", num: true, cell: (row) => count(row.partitions) },
      { key: "factor", label: "Replicas", width: "90px", phone: false, num: true, cell: (row) => count(row.factor) },
      { key: "size", label: "Size", width: "100px", phone: false, num: true, value: (row) => sizes?.[row.name] ?? null, cell: (row) => bytes(sizes?.[row.name]) },
    ],
    all: () => topics.length,
    empty: h("div", null, empty("There is no topic yet", "A topic comes into being when a program writes to it, or with:", h("code", null, "odradek topics create orders --partitions 3"))),
  });
  const draw = () => table.setRows(chosen(topics));
  const tools = [
    filter(life, "Filter by name", draw),
    choice(life, "Which topics", "kind", KINDS, draw),
    facts.write ? h("button", { type: "button", onclick: async () => (await import("./actions.js")).createTopic(load) }, "Create topic") : null,
  ];
  replace(page, head({ title: "Topics", tools }), tabs(TABS, "topics"), notices.element, table.element);

  async function load() {
    try {
      const found = await get("topics", null, life.signal);
      topics = found.topics.map(([name, internal, partitions, factor, under, offline]) => ({ name, internal, partitions, factor, under, offline }));
      notices.show([]);
      draw();
    } catch (error) {
      notices.failed(error);
    }
  }

  await life.every(5000, load);
  life.every(20000, async () => {
    try {
      const found = await get("sizes", null, life.signal);
      sizes = found.topics;
      table.refresh();
    } catch {
      sizes = null;
    }
  });
}

function chosen(topics) {
  const { parameters } = current();
  const words = (parameters.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const kind = parameters.get("kind") ?? "";
  return topics.filter((topic) => words.every((word) => topic.name.toLowerCase().includes(word))
    && (kind !== "user" || !topic.internal) && (kind !== "trouble" || trouble(topic) > 0));
}

const trouble = (topic) => (topic.offline ? 2 : topic.under ? 1 : 0);

function topicState(topic) {
  if (topic.offline) return state("bad", `${count(topic.offline)} without leader`);
  if (topic.under) return state("warn", `${count(topic.under)} behind`);
  return state("good", topic.internal ? "internal" : "in sync");
}
