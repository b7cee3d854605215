// Purgatories, each with the timing wheel that its operations wait in: a ring a level, a segment a bucket.

import { h, replace, s } from "../lib/dom.js";
import { count, duration, plural } from "../lib/format.js";

const ABOUT = {
  Produce: "Writes with acks=all, until enough replicas have them.",
  Fetch: "Reads that wait for data.",
  DeleteRecords: "Deletions that wait for all replicas.",
  ElectLeader: "Elections that somebody has asked for.",
  Rebalance: "Groups that wait for their members to join.",
  Heartbeat: "Members, until their next sign of life is due.",
  topic: "Topics that are being made or deleted.",
};
const CENTRE = 110;
const INNER = 30;
const OUTER = 104;
const RINGS = 4;

export function make() {
  const element = h("div", { class: "cards wheels" });
  return { element, draw: (sample) => replace(element, sample.purgatories.map(card)) };
}

function card(purgatory) {
  const spans = purgatory.levels.map((level) => level.tick * level.buckets.length);
  return h("div", { class: "card" },
    h("div", { class: "card-head" }, h("h2", null, purgatory.name), h("span", { class: "muted" }, `${count(purgatory.delayed)} waiting`)),
    wheel(purgatory),
    h("p", { class: "muted" }, ABOUT[purgatory.name] ?? ""),
    h("p", { class: "faint small" }, `${plural(purgatory.watched, "entry", "entries")} in watch lists · ${plural(spans.length, "ring")}, the outer one of ${duration(spans.at(-1) ?? 0)}`));
}

// The inner ring is the finest. Each shows what waits in it, and where its time has come to.
function wheel(purgatory) {
  const { levels } = purgatory;
  const rings = Math.max(levels.length, RINGS);
  const width = (OUTER - INNER) / rings;
  const text = levels.map((level) => `${duration(level.tick)} a bucket: ${level.buckets.reduce((sum, each) => sum + each, 0)} waiting`).join("; ");
  return s("svg", { class: "wheel", viewBox: "0 0 220 220", role: "img", "aria-label": `${purgatory.name}. ${text}` },
    Array.from({ length: rings - levels.length }, (_, number) =>
      s("circle", { cx: CENTRE, cy: CENTRE, r: INNER + (levels.length + number + 0.5) * width - 1.5, class: "ghost" })),
    levels.map((level, number) => {
      const inner = INNER + number * width;
      const outer = inner + width - 3;
      return s("g", null,
        s("title", null, `${duration(level.tick)} a bucket, ${duration(level.tick * level.buckets.length)} a turn`),
        level.buckets.map((size, index) => segment(inner, outer, index, level.buckets.length, size)),
        hand(inner, outer, level.at, level.buckets.length));
    }),
    s("text", { x: CENTRE, y: CENTRE + 6, "text-anchor": "middle" }, count(purgatory.delayed)));
}

const point = (radius, turn) => [CENTRE + radius * Math.sin(turn * 2 * Math.PI), CENTRE - radius * Math.cos(turn * 2 * Math.PI)].map((n) => n.toFixed(2)).join(" ");

function segment(inner, outer, index, buckets, size) {
  const gap = 0.1 / buckets;
  const [from, to] = [index / buckets + gap, (index + 1) / buckets - gap];
  const path = `M${point(inner, from)} L${point(outer, from)} A${outer} ${outer} 0 0 1 ${point(outer, to)} L${point(inner, to)} A${inner} ${inner} 0 0 0 ${point(inner, from)} Z`;
  const level = size === 0 ? 0 : size < 2 ? 1 : size < 10 ? 2 : size < 100 ? 3 : 4;
  return s("path", { d: path, class: `bucket full-${level}` }, size ? s("title", null, size >= 100 ? "100 or more" : String(size)) : null);
}

function hand(inner, outer, at, buckets) {
  const [from, to] = [at / buckets, (at + 1) / buckets];
  return s("path", { d: `M${point(outer + 1.5, from)} A${outer + 1.5} ${outer + 1.5} 0 0 1 ${point(outer + 1.5, to)}`, class: "hand" });
}
