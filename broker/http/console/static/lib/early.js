// What the view of the first address asks first, asked while the page's other files are still on their way.

const FIRST = {
  "/": "overview",
  "/topics": "topics",
  "/partitions": "partitions",
  "/groups": "groups",
  "/transactions": "transactions",
};

const FRESH_MS = 10_000;

let name = FIRST[location.hash.replace(/^#/, "").split("?")[0] || "/"];
let asked = name ? fetch(`api/${name}`, { credentials: "same-origin" }) : null;
// Who takes it is told what went wrong.
asked?.catch(() => {});

// The answer that is on its way to this question, once.
export function early(question) {
  if (!asked || question !== name || performance.now() > FRESH_MS) return null;
  const found = asked;
  asked = name = null;
  return found;
}
