// The workings of the broker that serves this page, once a second for as long as the page is in sight.

import { h, replace } from "../lib/dom.js";
import { get } from "../lib/api.js";
import { head, Notices, tabs } from "../lib/widgets.js";
import * as controller from "./inside_controller.js";
import * as replication from "./inside_replication.js";
import * as requests from "./inside_requests.js";
import * as waiting from "./inside_waiting.js";

export const title = "Internals";
const PARTS = { requests, waiting, controller, replication };
const TABS = [["requests", "Requests", "#/internals/requests"], ["waiting", "Waiting", "#/internals/waiting"],
  ["controller", "Controller", "#/internals/controller"], ["replication", "Replication", "#/internals/replication"]];

export async function show({ page, life, args, facts }) {
  const tab = args.tab in PARTS ? args.tab : "requests";
  const notices = new Notices();
  const room = h("div", { class: "section inside" }, h("p", { class: "loading" }, "Waiting for the first sample …"));
  const others = Object.entries(facts.peers ?? {}).filter(([id]) => Number(id) !== facts.broker);
  const sub = h("span", null, `Broker ${facts.broker}, as it is this second`,
    others.length ? [" · also ", others.map(([id, url], index) => [index ? ", " : "", h("a", { href: `${url}#/internals/${tab}` }, `broker ${id}`)])] : null);
  replace(page, head({ title: "Internals", sub }), tabs(TABS, tab), notices.element, room);
  const view = PARTS[tab].make(facts);
  let isDrawn = false;

  listen(life, (sample) => {
    if (!isDrawn) replace(room, view.element);
    isDrawn = true;
    notices.show([]);
    view.draw(sample);
    document.body.dataset.sample = sample.at;
  }, (text) => notices.show([["warn", text]]));
}

// A stream while somebody looks; a hidden page has none.
function listen(life, take, tell) {
  let source = null;
  const stop = () => {
    source?.close();
    source = null;
  };
  const start = () => {
    stop();
    if (document.hidden || life.signal.aborted) return;
    source = new EventSource("api/internals");
    source.onmessage = (event) => take(JSON.parse(event.data));
    source.onerror = async () => {
      if (source?.readyState !== EventSource.CLOSED) return;
      // The browser gives up when the answer is a refusal, and does not say which.
      try {
        await get("internals-allowed", null, life.signal);
        tell("The broker ends the stream of samples; the page asks again.");
      } catch (error) {
        if (error.name === "AbortError") return;
        if (error.status === 401) location.reload();
        tell(error.message);
        if (error.status === 403) return;
      }
      setTimeout(start, 3000);
    };
  };
  life.on(document, "visibilitychange", start);
  life.signal.addEventListener("abort", stop);
  start();
}
