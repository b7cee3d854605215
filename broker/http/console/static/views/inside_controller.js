// The controller's queue, its events, and partitions and replicas that change their state.

import { h, replace } from "../lib/dom.js";
import { count, duration, NONE, time } from "../lib/format.js";
import { empty, note, stats } from "../lib/widgets.js";

const KEPT = 200;

export function make(facts) {
  const numbers = h("div");
  const elsewhere = h("div", { hidden: true });
  const queue = h("div", { class: "queue" });
  const events = h("div", { class: "trail" });
  const transitions = h("div", { class: "trail" });
  const seen = { events: [], transitions: [] };
  const element = h("div", { class: "section" }, elsewhere, numbers,
    h("h2", null, "Queue"), queue,
    h("div", { class: "two" },
      h("section", { class: "section" }, h("h2", null, "Events"), events),
      h("section", { class: "section" }, h("h2", null, "State transitions"), transitions)));

  function keep(name, fresh) {
    const last = seen[name].at(-1)?.n ?? 0;
    // Numbers begin again with a broker that has been started again.
    const isOther = fresh.length && fresh.at(-1).n < last;
    seen[name] = [...(isOther ? [] : seen[name]), ...fresh.filter((each) => isOther || each.n > last)].slice(-KEPT);
    return [...seen[name]].reverse();
  }

  function draw({ controller }) {
    elsewhere.hidden = controller.active || controller.controller < 0;
    if (!elsewhere.hidden) {
      const url = facts.peers?.[controller.controller];
      replace(elsewhere, note("idle", `Broker ${controller.controller} is the controller: what happens is decided there. `,
        url ? h("a", { href: `${url}#/internals/controller` }, "To its console") : null));
    }
    replace(numbers, stats([
      ["Controller", controller.controller < 0 ? NONE : controller.controller, controller.active ? "this broker" : "another broker"],
      ["Epoch", count(controller.epoch), controller.active ? null : "known here"],
      ["At work on", controller.state === "IDLE" ? "nothing" : controller.state.toLowerCase().replaceAll("_", " "), null, "text"],
      ["Queued", count(controller.queued), "events", controller.queued > 20 ? "warn" : null],
    ]));
    replace(queue, controller.waiting.length ? controller.waiting.map((name) => h("span", { class: "tag" }, name)) : h("span", { class: "faint" }, "Nothing waits."));
    const processed = keep("events", controller.events);
    replace(events, processed.length ? [trailHead("Event", "Waited", "Took"), processed.map((each) => h("div", { class: "trail-row" },
      h("span", { class: "mono faint" }, time(each.at).slice(11)), h("span", { class: "name clip", title: each.name }, each.name),
      h("span", { class: "num muted", title: "waited in the queue" }, duration(each.waited)), h("span", { class: "num", title: "took" }, duration(each.took))))]
      : empty("No event since you look", "Create a topic, or stop a broker, and see what the controller does about it."));
    const changes = keep("transitions", controller.transitions);
    replace(transitions, changes.length ? changes.map((each) => h("div", { class: "trail-row change" },
      h("span", { class: "mono faint" }, time(each.at).slice(11)),
      h("span", { class: "name clip", title: each.partition }, each.partition, each.replica === null ? "" : h("span", { class: "muted" }, ` on ${each.replica}`)),
      h("span", { class: "num clip" }, h("span", { class: "faint" }, `${name(each.from)} → `), h("span", { class: kind(each.to) }, name(each.to)))))
      : empty("No transition since you look", "Partitions and replicas that change their state pass by here."));
  }

  return { element, draw };
}

function trailHead(label, ...numbers) {
  return h("div", { class: "trail-row trail-head" }, h("span", null, "Time"), h("span", null, label), numbers.map((each) => h("span", { class: "num" }, each)));
}

const name = (state) => state.toLowerCase().replaceAll("_", " ");
const kind = (state) => (state === "ONLINE" ? "good" : state === "OFFLINE" || state === "DELETION_INELIGIBLE" ? "bad" : "");
