// What records are wanted: fields whose values stand in the address.

import { h, replace } from "../lib/dom.js";
import { current, setParameters } from "../lib/router.js";
import { say } from "../lib/widgets.js";

const STARTS = [["end", "Newest"], ["first", "Oldest"], ["offset", "From offset"], ["time", "From time"]];
const FORMATS = [["auto", "As it looks"], ["text", "Text"], ["json", "JSON"], ["hex", "Hex"], ["msgpack", "MessagePack"], ["avro", "Avro"]];
const SCHEMA = "odradek.schema";
const MAX_SCHEMA = 128 * 1024;

const get = (name, fallback = "") => current().parameters.get(name) ?? fallback;

// The question that the address asks.
export function question(limit) {
  const wanted = {
    topic: get("topic"), partition: Number(get("partition", "-1")), start: get("start", "end"), limit,
    key: get("key"), text: get("text"), header: get("header"), committed: get("committed") ? 1 : 0,
    key_format: get("keys", "auto"), value_format: get("values", "auto"),
  };
  const value = get("value");
  if (wanted.start === "offset") wanted.value = Number(value) || 0;
  if (wanted.start === "time") wanted.value = Date.parse(value) || 0;
  if (wanted.key_format === "avro" || wanted.value_format === "avro") wanted.schema = sessionStorage.getItem(SCHEMA) ?? "";
  return wanted;
}

export function form(life, { names, ask }) {
  const select = (name, options, fallback, attributes) => {
    const element = h("select", { name, ...attributes }, options.map(([key, label]) => h("option", { value: key, selected: key === get(name, fallback) }, label)));
    return element;
  };
  const text = (name, attributes) => h("input", { name, value: get(name), autocomplete: "off", spellcheck: "false", ...attributes });
  const list = h("datalist", { id: "topic-names" });
  const topic = text("topic", { list: "topic-names", placeholder: "Topic", required: true, "data-filter": "" });
  const partition = select("partition", [["-1", "All"], ...(get("partition") && get("partition") !== "-1" ? [[get("partition"), get("partition")]] : [])], "-1");
  const start = select("start", STARTS, "end");
  const value = text("value", { "aria-label": "Offset or time" });
  const place = h("label", null, h("span"), value);
  const file = h("input", { type: "file", accept: ".avsc,.json,application/json" });
  const schemaLine = h("label", { class: "schema" }, "Avro schema file (.avsc)", file);
  const button = h("button", { class: "primary", type: "submit" }, "Show");
  const more = h("details", { class: "more" }, h("summary", null, "Filters and formats"),
    h("div", { class: "fields" },
      h("label", null, "Key contains", text("key")),
      h("label", null, "Value contains", text("text")),
      h("label", null, "Header", text("header", { placeholder: "name=text, or text" })),
      h("label", null, "Keys are", select("keys", FORMATS, "auto")),
      h("label", null, "Values are", select("values", FORMATS, "auto")),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "committed", checked: get("committed") === "1" }), "Committed only"),
      schemaLine));
  more.open = ["key", "text", "header", "keys", "values", "committed"].some((name) => get(name));
  const element = h("form", { class: "record-form" },
    h("div", { class: "fields first" },
      h("label", { class: "grow" }, "Topic", topic, list), h("label", null, "Partition", partition),
      h("label", null, "Start", start), place, button),
    more);
  let partitions = new Map();

  function arrange() {
    const isTime = start.value === "time";
    place.hidden = !(isTime || start.value === "offset");
    place.firstChild.textContent = isTime ? "Time" : "Offset";
    const type = isTime ? "datetime-local" : "number";
    if (value.type !== type) {
      value.type = type;
      value.value = get("value");
    }
    if (isTime) value.step = "1";
    else value.min = "0";
    const formats = [element.elements.keys.value, element.elements.values.value];
    schemaLine.hidden = !formats.includes("avro");
  }

  function listPartitions() {
    const chosen = partition.value;
    const number = partitions.get(topic.value) ?? 0;
    replace(partition, h("option", { value: "-1" }, "All"), Array.from({ length: number }, (_, each) => h("option", { value: String(each) }, each)));
    partition.value = [...partition.options].some((option) => option.value === chosen) ? chosen : "-1";
  }

  function write() {
    const { elements } = element;
    const plain = { topic: topic.value.trim(), partition: partition.value === "-1" ? "" : partition.value,
      start: start.value === "end" ? "" : start.value, value: place.hidden ? "" : value.value,
      key: elements.key.value, text: elements.text.value, header: elements.header.value,
      keys: elements.keys.value === "auto" ? "" : elements.keys.value, values: elements.values.value === "auto" ? "" : elements.values.value,
      committed: elements.committed.checked ? "1" : "", record: "" };
    setParameters(plain);
  }

  life.on(element, "submit", (event) => {
    event.preventDefault();
    write();
    ask();
  });
  life.on(element, "change", async (event) => {
    if (event.target === topic) listPartitions();
    if (event.target === file) await keepSchema(file.files[0]);
    arrange();
    if (event.target.matches("select, input[type=checkbox], input[type=file]") && topic.value && (place.hidden || value.value)) {
      write();
      ask();
    }
  });
  arrange();
  return {
    element,
    isFiltered: () => Boolean(get("key") || get("text") || get("header")),
    busy: (on) => { button.disabled = on; },
    load: async () => {
      try {
        const found = await names();
        partitions = new Map(found);
        replace(list, found.map(([name]) => h("option", { value: name })));
        listPartitions();
        partition.value = get("partition", "-1");
      } catch (error) {
        if (error.status === 401) throw error;
      }
    },
  };
}

async function keepSchema(file) {
  if (!file) return;
  if (file.size > MAX_SCHEMA) say("A schema has at most 128 KiB.");
  else sessionStorage.setItem(SCHEMA, await file.text());
}
