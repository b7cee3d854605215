// What may be changed, each in a dialog. What cannot be taken back wants the name written out.

import { post } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { count, NONE } from "../lib/format.js";
import { topicAddress } from "../lib/router.js";
import { ask, field, note, say } from "../lib/widgets.js";

export function createTopic(done) {
  ask({
    title: "Create a topic", action: "Create",
    fields: [
      field("Name", { name: "name", required: true, maxlength: 249, pattern: "[a-zA-Z0-9._\\-]+", title: "Letters, digits, '.', '_' and '-'", autofocus: true }),
      field("Partitions (empty: the brokers' default)", { name: "partitions", type: "number", min: 1, max: 10000 }),
      field("Replicas (empty: the brokers' default)", { name: "replicas", type: "number", min: 1 }),
      h("label", null, "Configuration, one key=value a line", h("textarea", { name: "configs", rows: 3, spellcheck: "false", placeholder: "retention.ms=604800000" })),
    ],
    send: async (data) => {
      const name = data.get("name");
      const wanted = { name, configs: pairs(data.get("configs")) };
      for (const each of ["partitions", "replicas"]) if (data.get(each)) wanted[each] = Number(data.get(each));
      await post("create-topic", wanted);
      say(`The topic ${name} is made.`);
      await done();
      location.hash = topicAddress(name);
    },
  });
}

function pairs(text) {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const [key, ...value] = line.split("=");
    if (!value.length) throw new Error(`${line} is not key=value.`);
    found[key.trim()] = value.join("=").trim();
  }
  return found;
}

export function deleteTopic(name) {
  ask({
    title: `Delete ${name}?`, action: "Delete topic", danger: true,
    text: "The topic, all its records and its configuration go, and do not come back.",
    fields: [field("Write the topic's name to confirm", { name: "confirm", required: true, autofocus: true })],
    send: async (data) => {
      await post("delete-topic", { name, confirm: data.get("confirm") });
      say(`The topic ${name} is deleted.`);
      location.hash = "#/topics";
    },
  });
}

export function alterConfig(topic, row, done) {
  const reset = h("input", { type: "checkbox", name: "reset" });
  ask({
    title: row.name, action: "Change", text: row.about,
    fields: [
      field("Value", { name: "value", value: row.value ?? "", autofocus: true }),
      row.source === "topic" ? h("label", { class: "check" }, reset, "Back to the default") : null,
    ],
    send: async (data) => {
      await post("alter-config", { topic, key: row.name, value: data.get("value") ?? "", reset: data.get("reset") ? 1 : 0 });
      say(`${row.name} is changed.`);
      await done();
    },
  });
}

export function deleteRecords(topic, latest, done) {
  const partitions = latest?.partitions ?? [];
  ask({
    title: `Delete records of ${topic}`, action: "Delete records", danger: true,
    text: "What is before the offset goes from all replicas, and does not come back.",
    fields: [
      h("label", null, "Partition", h("select", { name: "partition" }, partitions.map((each) =>
        h("option", { value: each.partition }, `${each.partition}, offsets ${count(each.first)} to ${count(each.end)}`)))),
      field("Before offset (empty: all records that there are)", { name: "before", type: "number", min: 0 }),
      field("Write the topic's name to confirm", { name: "confirm", required: true }),
    ],
    send: async (data) => {
      const before = data.get("before") === "" ? -1 : Number(data.get("before"));
      const answer = await post("delete-records", { topic, partition: Number(data.get("partition")), before, confirm: data.get("confirm") });
      say(`The partition begins at offset ${count(answer.first)} now.`);
      await done();
    },
  });
}

const TARGETS = [["to_earliest", "The first record"], ["to_latest", "The end"], ["to_offset", "An offset"], ["to_datetime", "A time"], ["shift_by", "So many records on, or back"]];

export function resetOffsets(group, latest, done) {
  const topics = [...new Set((latest?.offsets ?? []).map(([topic]) => topic))];
  const target = h("select", { name: "target" }, TARGETS.map(([key, label]) => h("option", { value: key }, label)));
  const value = h("input", { name: "value", type: "number", autocomplete: "off" });
  const place = h("label", { hidden: true }, h("span"), value);
  const shown = h("div", { class: "preview" });
  target.addEventListener("change", () => {
    place.hidden = !["to_offset", "to_datetime", "shift_by"].includes(target.value);
    value.type = target.value === "to_datetime" ? "datetime-local" : "number";
    place.firstChild.textContent = { to_offset: "Offset", to_datetime: "Time", shift_by: "Records" }[target.value] ?? "";
    wasShown = "";
    replace(shown);
  });
  let wasShown = "";
  ask({
    title: `Reset offsets of ${group}`, action: "Go on", danger: true,
    text: "The group must have no members. First you see where it would go on; a second press sets it.",
    fields: [
      h("label", null, "Topic", h("input", { name: "topic", required: true, list: "reset-topics", value: topics[0] ?? "" }), h("datalist", { id: "reset-topics" }, topics.map((each) => h("option", { value: each })))),
      h("label", null, "Go on at", target), place, shown,
    ],
    send: async (data) => {
      const text = data.get("value");
      const wanted = { group, topic: data.get("topic"), target: data.get("target"),
        value: data.get("target") === "to_datetime" ? Date.parse(text) || 0 : Number(text) || 0 };
      const key = JSON.stringify(wanted);
      const execute = key === wasShown ? 1 : 0;
      const answer = await post("reset-offsets", { ...wanted, execute });
      if (execute) {
        say("The offsets are set.");
        await done();
        return;
      }
      wasShown = key;
      replace(shown, h("dl", { class: "facts" }, answer.offsets.slice(0, 100).map(([partition, from, to]) => [
        h("dt", null, `Partition ${partition}`), h("dd", null, `${from === null ? NONE : count(from)} → ${count(to)}`)])),
      note("warn", "Nothing is set yet. Press once more to set these offsets."));
      throw new Preview();
    },
  });
}

// Keeps the dialog open, without a fault to show.
class Preview extends Error {
  constructor() {
    super("");
    this.isPreview = true;
  }
}
