// Questions to the broker that this page came from.

import { early } from "./early.js";

let token = "";

export class ApiError extends Error {
  constructor(status, code, text) {
    super(text);
    this.status = status;
    this.code = code;
  }
}

async function answer(response) {
  let value;
  try {
    value = await response.json();
  } catch {
    throw new ApiError(response.status, "form", "The broker's answer cannot be read.");
  }
  if (response.ok) return value;
  throw new ApiError(response.status, value.error, value.text ?? "The broker refused the question.");
}

async function send(path, options) {
  try {
    return await (early(path) ?? fetch(`api/${path}`, { credentials: "same-origin", ...options }));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "away", "This broker does not answer. The page tries again by itself.");
  }
}

export async function get(name, parameters, signal) {
  const query = new URLSearchParams(parameters ?? {}).toString();
  return answer(await send(query ? `${name}?${query}` : name, { signal }));
}

export async function post(name, body, signal) {
  const headers = { "content-type": "application/json", "x-odradek-token": token };
  return answer(await send(name, { method: "POST", headers, body: JSON.stringify(body ?? {}), signal }));
}

export async function session() {
  const found = await get("session");
  token = found.token ?? "";
  return found;
}

export async function login(user, password) {
  token = "";
  await post("login", { user, password });
}
