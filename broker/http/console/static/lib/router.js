// The address after # is the view: a path, and parameters that are its filters. So every view can be shared.

const views = [];

export function route(pattern, load, nav) {
  const names = [];
  const source = pattern.replace(/:(\w+)/g, (_, name) => {
    names.push(name);
    return "([^/]+)";
  });
  views.push({ expression: new RegExp(`^${source}$`), names, load, nav });
}

export function current() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  return { path: path || "/", parameters: new URLSearchParams(query) };
}

export function find(path) {
  for (const view of views) {
    const match = view.expression.exec(path);
    if (!match) continue;
    try {
      const args = Object.fromEntries(view.names.map((name, index) => [name, decodeURIComponent(match[index + 1])]));
      return { ...view, args };
    } catch {
      return null;
    }
  }
  return null;
}

export function address(path, parameters) {
  const filled = Object.entries(parameters ?? {}).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(filled).toString();
  return query ? `#${path}?${query}` : `#${path}`;
}

export const topicAddress = (name, parameters) => address(`/topics/${encodeURIComponent(name)}`, parameters);
export const groupAddress = (id) => address(`/groups/${encodeURIComponent(id)}`);

// Parameters of the view that is shown, without a new entry in the history.
export function setParameters(changes) {
  const { path, parameters } = current();
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) parameters.delete(name);
    else parameters.set(name, value);
  }
  history.replaceState(null, "", address(path, Object.fromEntries(parameters)));
}

// What a view may do for as long as it is shown.
export class Life {
  constructor() {
    this.controller = new AbortController();
    this.signal = this.controller.signal;
  }

  end() {
    this.controller.abort();
  }

  on(target, name, handler, options) {
    target.addEventListener(name, handler, { ...options, signal: this.signal });
  }

  // Now, and again and again while somebody looks. `task` says what went wrong by itself.
  every(ms, task) {
    let timer = 0;
    let running = false;
    const run = async () => {
      clearTimeout(timer);
      if (this.signal.aborted || document.hidden || running) return;
      running = true;
      try {
        await task();
      } finally {
        running = false;
        if (!this.signal.aborted) timer = setTimeout(run, ms);
      }
    };
    this.on(document, "visibilitychange", run);
    this.signal.addEventListener("abort", () => clearTimeout(timer));
    return run();
  }
}
