// One transactional id.

import { get } from "../lib/api.js";
import { h, replace } from "../lib/dom.js";
import { count, duration, NONE, time } from "../lib/format.js";
import { topicAddress } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { empty, head, Notices, stats } from "../lib/widgets.js";
import { transactionState } from "./transactions.js";

export const title = "Transaction";

export async function show({ page, life, args }) {
  const { id } = args;
  const notices = new Notices();
  const numbers = h("div");
  const sub = h("span");
  const table = new Table({
    label: "Partitions in the transaction", life, short: true, fixed: true, key: (row) => row.join("-"),
    columns: [
      { key: 0, label: "Topic", width: "minmax(0, 3fr)", cell: ([topic]) => h("a", { class: "name", href: topicAddress(topic) }, topic) },
      { key: 1, label: "Partition", width: "90px", num: true, cell: ([, partition]) => partition },
    ],
    empty: empty("No transaction is open", "The partitions that an open transaction has written to are listed here."),
  });
  replace(page, head({ crumb: ["Transactions", "#/transactions"], title: id, sub }), notices.element, numbers,
    h("section", { class: "section" }, h("h2", null, "Partitions in the transaction"), table.element));
  await life.every(3000, async () => {
    try {
      const found = await get("transaction", { id }, life.signal);
      notices.show([]);
      replace(sub, transactionState(found.state));
      const isOpen = found.started_ms !== null;
      replace(numbers, stats([
        ["Producer", found.producer_id, `epoch ${found.producer_epoch}`],
        ["Open for", isOpen ? duration(Date.now() - found.started_ms) : NONE, isOpen ? `since ${time(found.started_ms)}` : null],
        ["Ends at the latest after", duration(found.timeout_ms), null],
        ["Partitions", count(found.partitions.length), null],
        ["Coordinator", found.coordinator, "broker"],
      ]));
      table.setRows(found.partitions);
    } catch (error) {
      notices.failed(error);
    }
  });
}
