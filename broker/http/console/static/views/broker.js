// One broker: its directories and its configuration.

import { get } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { bytes, count, NONE, plural } from "../lib/format.js";
import { head, Notices, state, stats } from "../lib/widgets.js";
import { configTable } from "./configs.js";

export const title = "Broker";

export async function show({ page, life, args, facts }) {
  const id = Number(args.id);
  const notices = new Notices();
  const numbers = h("div");
  const dirs = h("div", { class: "cards" });
  let latest = null;
  const configs = configTable(life, () => latest?.configs, null);
  const own = id === facts.broker;
  const elsewhere = facts.peers?.[id];
  const tools = own ? h("a", { class: "button", href: "#/internals" }, "Internals")
    : elsewhere ? h("a", { class: "button", href: elsewhere }, "Its own console") : null;
  replace(page, head({ crumb: ["Overview", "#/"], title: `Broker ${args.id}`, sub: own ? "serves this page" : "", tools }), notices.element, numbers,
    h("section", { class: "section" }, h("h2", null, "Log directories"), dirs),
    h("section", { class: "section" }, h("h2", null, "Configuration"), configs.element));
  await life.every(10000, async () => {
    try {
      const [overview, found] = await Promise.all([get("overview", null, life.signal), get("broker", { id }, life.signal)]);
      latest = found;
      const broker = overview.brokers.find((each) => each.id === id);
      notices.show([
        !broker?.alive ? ["bad", `Broker ${id} is away.`] : null,
        broker?.alive ? notices.silent(found.silent, "log directories") : null,
      ]);
      replace(numbers, stats([
        ["Address", broker?.host ? `${broker.host}:${broker.port}` : NONE, broker?.controller ? "is controller" : null, "text"],
        ["Leads", count(broker?.leaders ?? 0), "partitions"],
        ["Replicas", count(broker?.replicas ?? 0), null],
        ["Behind", count(broker?.lagging ?? 0), broker?.lagging ? "replicas not in sync" : "all in sync", broker?.lagging ? "warn" : null],
      ]));
      replace(dirs, found.dirs.length ? found.dirs.map(directory) : h("p", { class: "muted" }, "Not told: it needs Describe on the cluster, and a broker that answers."));
      configs.draw();
    } catch (error) {
      notices.failed(error);
    }
  });
}

function directory(dir) {
  const used = dir.total > 0 ? (dir.total - dir.usable) / dir.total : null;
  return h("div", { class: "card" },
    h("div", { class: "card-head" }, h("span", { class: "mono clip", title: dir.path }, dir.path), dir.failed ? state("bad", "failed") : null),
    used === null ? null : h("span", { class: "bar", title: `${Math.round(used * 100)}% of the disk is used` }, h("b", { vars: { width: `${(used * 100).toFixed(1)}%` } })),
    h("div", { class: "muted" }, `${plural(dir.replicas, "replica")}, ${bytes(dir.bytes)}`, used === null ? "" : ` · ${bytes(dir.usable)} free of ${bytes(dir.total)}`));
}
