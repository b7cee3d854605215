// Replication as arrows: what this broker copies from leaders, and what its followers copy from it.

import { h, replace, s } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { empty, state } from "../lib/widgets.js";

const ROW = 92;
const WIDTH = 860;
const STRAIGHT = 92;

export function make() {
  const picture = h("div", { class: "arrows" });
  const behind = h("div", { class: "trail" });
  const element = h("div", { class: "section" }, picture, h("h2", null, "Furthest behind"), behind);

  function draw({ replication }) {
    replace(picture, arrows(replication));
    replace(behind, replication.behind.length ? replication.behind.map((each) => h("div", { class: "trail-row change" },
      h("span", { class: "muted" }, `broker ${each.replica}`), h("span", { class: "name clip", title: each.partition }, each.partition),
      h("span", { class: "num" }, each.in_sync ? `${count(each.lag)} records` : state("warn", `out of sync, ${plural(each.lag, "record")}`))))
      : empty("Every follower has everything", `${plural(replication.led, "partition")} led here, all copies complete.`));
  }

  return { element, draw };
}

function arrows(replication) {
  const leaders = new Map();
  for (const fetcher of replication.fetchers) {
    const known = leaders.get(fetcher.leader) ?? { broker: fetcher.leader, partitions: 0, lag: 0, out: 0 };
    known.partitions += fetcher.partitions;
    known.lag = Math.max(known.lag, fetcher.lag);
    leaders.set(fetcher.leader, known);
  }
  const left = [...leaders.values()];
  const right = replication.followers;
  const rows = Math.max(left.length, right.length, 1);
  const height = rows * ROW + 24;
  const middle = height / 2 + 14;
  const place = (index, all) => middle + (index - (all - 1) / 2) * ROW;
  const text = [...left.map((each) => `from broker ${each.broker}: ${describe(each)}`), ...right.map((each) => `to broker ${each.broker}: ${describe(each)}`)].join("; ");
  return s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": text || "no replication" },
    s("text", { x: 70, y: 16, class: "column", "text-anchor": "middle" }, "Leaders"),
    s("text", { x: WIDTH / 2, y: 16, class: "column", "text-anchor": "middle" }, "This broker"),
    s("text", { x: WIDTH - 70, y: 16, class: "column", "text-anchor": "middle" }, "Followers"),
    left.map((each, index) => arrow([132, place(index, left.length)], [WIDTH / 2 - 62, middle], 138, "start", each)),
    right.map((each, index) => arrow([WIDTH / 2 + 62, middle], [WIDTH - 132, place(index, right.length)], WIDTH - 146, "end", each)),
    left.map((each, index) => node(70, place(index, left.length), `Broker ${each.broker}`)),
    right.map((each, index) => node(WIDTH - 70, place(index, right.length), `Broker ${each.broker}`)),
    node(WIDTH / 2, middle, `Broker ${replication.broker}`, true));
}

const describe = (each) => `${plural(each.partitions, "partition")}, ${each.lag ? `${count(each.lag)} behind` : "no lag"}${each.out ? `, ${each.out} out of sync` : ""}`;

function node(x, y, label, own) {
  return s("g", { class: own ? "node own" : "node" },
    s("rect", { x: x - 60, y: y - 20, width: 120, height: 40, rx: 8 }),
    s("text", { x, y: y + 5, "text-anchor": "middle" }, label));
}

// Its label stands at the other broker's end, where arrows are apart from each other and as straight as it is long.
function arrow([x1, y1], [x2, y2], labelAt, anchor, each) {
  const kind = each.out ? "bad" : each.lag > 1000 ? "warn" : "level";
  const width = 1.5 + Math.min(4, Math.log10(1 + each.partitions) * 1.4);
  const [begin, end] = anchor === "start" ? [x1 + STRAIGHT, x2 - 8] : [x1, x2 - 8 - STRAIGHT];
  const bend = (end - begin) / 2;
  const labelY = anchor === "start" ? y1 : y2;
  return s("g", { class: `arrow ${kind}` },
    s("path", { d: `M${x1} ${y1} H${begin} C${begin + bend} ${y1} ${begin + bend} ${y2} ${end} ${y2} H${x2 - 8}`, "stroke-width": width.toFixed(1) }),
    s("path", { d: `M${x2} ${y2} l-10 -5.500 v11 z`, class: "tip" }),
    s("text", { x: labelAt, y: labelY - 9, "text-anchor": anchor }, plural(each.partitions, "partition")),
    s("text", { x: labelAt, y: labelY + 20, "text-anchor": anchor, class: "lag" }, each.out ? `${each.out} out of sync` : each.lag ? `${count(each.lag)} behind` : "no lag"));
}
