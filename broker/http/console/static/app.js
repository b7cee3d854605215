// The page begins here: who is there, then the view that the address names.

import { session } from "./lib/api.js";
import { h, replace } from "./lib/dom.js";
import { current, find, Life, route } from "./lib/router.js";
import { applyTheme, shell, showLogin, toggleTheme } from "./lib/shell.js";
import { startKeyboard } from "./lib/keyboard.js";
import { empty, note } from "./lib/widgets.js";

route("/", () => import("./views/overview.js"));
route("/brokers/:id", () => import("./views/broker.js"));
route("/topics", () => import("./views/topics.js"));
route("/topics/:name", () => import("./views/topic.js"));
route("/partitions", () => import("./views/partitions.js"));
route("/groups", () => import("./views/groups.js"));
route("/groups/:id", () => import("./views/group.js"));
route("/transactions", () => import("./views/transactions.js"));
route("/transactions/:id", () => import("./views/transaction.js"));
route("/records", () => import("./views/records.js"));
route("/internals", () => import("./views/internals.js"));
route("/internals/:tab", () => import("./views/internals.js"));

applyTheme();
const root = document.getElementById("app");
let life = new Life();
let shown = "";

function up() {
  const parts = current().path.split("/").filter(Boolean);
  location.hash = parts.length > 1 ? `#/${parts[0]}` : "#/";
}

async function show(frame, facts) {
  const { path, parameters } = current();
  const place = `${path} ${parameters.get("tab") ?? ""}`;
  if (place === shown) return;
  shown = place;
  life.end();
  life = new Life();
  const mine = life;
  frame.mark();
  const view = find(path);
  const page = h("div", { class: "page" });
  frame.main.className = "";
  frame.main.scrollTop = 0;
  document.body.dataset.shown = "";
  if (!view) {
    replace(page, empty("There is no such view", h("a", { href: "#/" }, "To the overview")));
    replace(frame.main, page);
    return;
  }
  try {
    const module = await view.load();
    if (mine.signal.aborted) return;
    replace(frame.main, page);
    document.title = `${view.args.name ?? view.args.id ?? module.title} · Odradek`;
    await module.show({ page, main: frame.main, life: mine, args: view.args, facts });
    if (!mine.signal.aborted) document.body.dataset.shown = path;
  } catch (error) {
    if (error.name === "AbortError" || mine.signal.aborted) return;
    if (error.status === 401) location.reload();
    else replace(frame.main, h("div", { class: "page" }, note("bad", error.message)));
    if (!(error.status >= 0)) throw error;
  }
}

async function begin() {
  // Its file comes while the session is asked for; what is wrong with it shows when it is shown.
  find(current().path)?.load().catch(() => {});
  const facts = await session();
  if (!facts.in) {
    showLogin(root);
    return;
  }
  const frame = shell(facts);
  replace(root, frame.element);
  startKeyboard({ theme: toggleTheme, up });
  addEventListener("hashchange", () => show(frame, facts));
  await show(frame, facts);
}

async function beginOrWait() {
  try {
    await begin();
  } catch (error) {
    replace(root, h("div", { class: "login" }, note("bad", error.message)));
    if (error.status === 0 || error.status >= 500) setTimeout(beginOrWait, 2000);
  }
}

beginOrWait();
