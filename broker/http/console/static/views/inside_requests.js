// The way of a request through the broker, and the six parts of its time.

import { h, replace, s } from "../lib/dom.js";
import { count, duration } from "../lib/format.js";
import { empty } from "../lib/widgets.js";

const PARTS = [["Request queue", 1], ["Local", 2], ["Remote", 3], ["Throttle", 4], ["Response queue", 5], ["Send", 6]];
const HISTORY = 60;
const SLOW = 10;

export function make() {
  const way = h("div", { class: "way" });
  const table = h("div", { class: "apis" });
  const slow = h("div", { class: "apis" });
  const rates = [];
  let slowest = [];
  const element = h("div", { class: "section" },
    way,
    h("div", { class: "section-head" }, h("h2", null, "Where the time goes"), legend()),
    table,
    h("h2", null, "Slowest of the last minute"), slow);

  function draw(sample) {
    const { reactor, requests, interval } = sample;
    const apis = Object.entries(requests.apis).map(([name, found]) => ({
      name, rate: found.count / (interval / 1000), max: found.max, parts: found.parts.map((part) => part / found.count),
    })).sort((a, b) => b.rate - a.rate);
    rates.push(apis.reduce((sum, api) => sum + api.rate, 0));
    if (rates.length > HISTORY) rates.shift();
    replace(way, drawWay(reactor, rates));
    replace(table, apis.length ? [apiHead(), apis.map((api) => apiRow(api, longest(apis)))]
      : empty("No request in this second", "Whatever a client asks of this broker shows here."));
    const old = sample.at - 60_000;
    slowest = [...slowest.filter((one) => one.at > old), ...requests.slowest.map((one) => ({ ...one, at: sample.at }))]
      .sort((a, b) => total(b.parts) - total(a.parts)).slice(0, SLOW);
    replace(slow, slowest.map((one) => h("div", { class: "api" },
      h("span", { class: "clip" }, h("span", { class: "name" }, one.api), h("span", { class: "faint" }, ` v${one.version} · ${one.client || "no client id"}`)),
      bar(one.parts, total(slowest[0].parts)), h("span", { class: "num" }, duration(total(one.parts))))));
  }

  return { element, draw };
}

const total = (parts) => parts.reduce((sum, part) => sum + part, 0);
const longest = (apis) => Math.max(...apis.map((api) => total(api.parts)), 0.001);

function legend() {
  return h("div", { class: "legend" }, PARTS.map(([label, series]) => h("span", null, h("i", { class: `series-${series}` }), label)));
}

function apiHead() {
  return h("div", { class: "api api-head" }, h("span", null, "Request"), h("span", null, "By part"), h("span", { class: "num" }, "Mean"), h("span", { class: "num wide" }, "Longest"), h("span", { class: "num" }, "Per s"));
}

function apiRow(api, scale) {
  return h("div", { class: "api" }, h("span", { class: "name clip" }, api.name), bar(api.parts, scale),
    h("span", { class: "num" }, duration(total(api.parts))), h("span", { class: "num wide" }, duration(api.max)),
    h("span", { class: "num" }, api.rate >= 10 ? count(Math.round(api.rate)) : api.rate.toFixed(1)));
}

function bar(parts, scale) {
  let x = 0;
  const text = PARTS.map(([label], index) => `${label} ${duration(parts[index])}`).join(", ");
  return s("svg", { class: "parts", viewBox: "0 0 400 12", preserveAspectRatio: "none", role: "img", "aria-label": text },
    s("title", null, text),
    parts.map((part, index) => {
      const width = (part / scale) * 400;
      const box = width > 0.1 ? s("rect", { x, y: 0, width: Math.max(width - 0.6, 0.4), height: 12, class: `series-${PARTS[index][1]}` }) : null;
      x += width;
      return box;
    }));
}

// Clients, network threads, the queue, handlers, and back.
function drawWay(reactor, rates) {
  const connections = reactor.processors.reduce((sum, each) => sum + each.connections, 0);
  const responses = reactor.processors.reduce((sum, each) => sum + each.responses, 0);
  const busy = (idle) => (idle === null ? "–" : `${Math.round((1 - idle) * 100)} %`);
  const fullness = reactor.queue / reactor.capacity;
  return [
    step("Connections", count(connections), spark(rates), `${count(Math.round(rates.at(-1)))} requests a second`),
    step("Network threads", count(reactor.processors.length),
      h("span", { class: "lamps" }, reactor.processors.map((each) => h("i", { title: `${each.listener} ${each.id}: ${each.connections} connections, ${busy(each.idle)} busy`, vars: { "--busy": String(1 - each.idle) } }))),
      `${busy(reactor.processors.reduce((sum, each) => sum + each.idle, 0) / Math.max(1, reactor.processors.length))} busy`),
    step("Request queue", count(reactor.queue), gauge(fullness), `of ${count(reactor.capacity)}`, fullness > 0.5 ? "warn" : null),
    step("Handlers", count(reactor.handlers), gauge(reactor.handlers_idle === null ? 0 : 1 - reactor.handlers_idle), `${busy(reactor.handlers_idle)} busy`),
    step("Response queues", count(responses), gauge(Math.min(1, responses / reactor.capacity)), "to be sent"),
  ];
}

function step(label, number, picture, text, kind) {
  return h("div", { class: "step" }, h("div", { class: "muted small" }, label), h("div", { class: `big ${kind ?? ""}` }, number), picture, h("div", { class: "muted small" }, text));
}

const gauge = (share) => h("span", { class: "bar" }, h("b", { vars: { width: `${(Math.max(0, Math.min(1, share)) * 100).toFixed(1)}%` } }));

function spark(values) {
  const most = Math.max(...values, 1);
  const points = values.map((value, index) => `${((index + HISTORY - values.length) / (HISTORY - 1)) * 100},${20 - (value / most) * 18}`).join(" ");
  return s("svg", { class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", "aria-hidden": "true" }, s("polyline", { points }));
}
