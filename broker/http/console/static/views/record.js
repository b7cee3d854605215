// One record, whole.

import { h, replace } from "../lib/dom.js";
import { bytes, count, plural, time } from "../lib/format.js";
import { say } from "../lib/widgets.js";

export function detail(aside, row, load, close) {
  const draw = (record) => replace(aside,
    h("div", { class: "detail-head" },
      h("h2", null, `Offset ${count(record.offset)}`),
      h("div", { class: "tools" },
        h("button", { type: "button", class: "quiet", onclick: copyLink }, "Copy link"),
        h("button", { type: "button", class: "quiet icon", onclick: close, "aria-label": "Close" }, "✕")),
      h("div", { class: "muted" }, `Partition ${record.partition} · ${time(record.time)}`)),
    part("Key", record.key), part("Value", record.value), headers(record));
  draw(row);
  aside.hidden = false;
  aside.dataset.record = `${row.partition}-${row.offset}`;
  const isCut = [row.key, row.value, ...row.headers.map(([, value]) => value)].some((each) => each?.cut);
  if (!isCut) return;
  load().then((answer) => {
    const [record] = answer.records;
    if (record && aside.dataset.record === `${record.partition}-${record.offset}`) draw(record);
  }).catch((error) => say(error.message));
}

function part(label, content) {
  if (content === null) return h("section", null, h("h3", null, label), h("p", { class: "faint" }, "null"));
  return h("section", null,
    h("div", { class: "detail-label" }, h("h3", null, label), h("span", { class: "faint" }, `${content.form} · ${bytes(content.size)}`)),
    content.problem ? h("p", { class: "warn" }, content.problem) : null,
    content.size === 0 ? h("p", { class: "faint" }, "empty") : h("pre", { class: "content", tabindex: "0" }, shown(content)),
    content.cut ? h("p", { class: "faint" }, "Only the beginning is shown.") : null);
}

function headers(record) {
  if (!record.headers.length) return h("section", null, h("h3", null, "Headers"), h("p", { class: "faint" }, "none"));
  return h("section", null,
    h("h3", null, plural(record.headers.length + record.more_headers, "header")),
    h("dl", { class: "facts headers" }, record.headers.map(([name, value]) => [
      h("dt", { class: "mono" }, name), h("dd", { class: "mono" }, value === null ? "null" : value.text)])));
}

// JSON with its lines, as long as a number in it keeps its digits that way.
function shown(content) {
  if (!["json", "msgpack", "avro"].includes(content.form) || content.cut) return content.text;
  try {
    const spread = JSON.stringify(JSON.parse(content.text), null, 2);
    return spread.replace(/\s/g, "").length === content.text.replace(/\s/g, "").length ? spread : content.text;
  } catch {
    return content.text;
  }
}

async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied.");
  } catch {
    say("The address of this page is the link.");
  }
}
