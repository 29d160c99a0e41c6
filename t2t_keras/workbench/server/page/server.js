// Requests to the server, and messages about their errors.

import { at, counted } from "./state.js";

const PATIENCE = 60_000; // Milliseconds for an answer.
const RETRY = 5_000;

/** An error with a message for the user; a retry may help after `wait` milliseconds, unless 0. */
export class Trouble extends Error {
  constructor(message, wait = 0) {
    super(message);
    this.wait = wait;
  }
}

async function refusal(response) {
  const { error } = (await response.json().catch(() => null)) ?? {};
  const reason = typeof error === "string" ? error.replace(/\.?$/, ".") : "";
  if (response.status === 429) {
    const seconds = Number(response.headers.get("Retry-After"));
    const wait = seconds ? `Wait ${counted(seconds, "second")}.` : "Wait a moment.";
    return new Trouble(`Too many requests. ${wait}`, 1000 * seconds || RETRY);
  }
  if (response.status === 401 || response.status === 403) {
    at("key-form").hidden = false;
    return new Trouble(`${reason || "The server wants an API key."} Enter the key above.`);
  }
  if (response.status < 500)
    return new Trouble(reason || `The server refused the request (${response.status}).`);
  const message = `The server failed (${response.status})${reason ? `: ${reason}` : "."}`;
  return new Trouble(message, [502, 503, 504].includes(response.status) ? RETRY : 0);
}

/**
 * Sends a request, and returns the JSON of the answer.
 *
 * A `body` is posted, as a form or else as JSON. `signal` aborts the request; after `patience`
 * milliseconds it times out.
 */
export async function ask(path, { body, signal, patience = PATIENCE } = {}) {
  const options = { signal };
  if (patience < Infinity) {
    const signals = [signal, AbortSignal.timeout(patience)].filter(Boolean);
    options.signal = AbortSignal.any(signals);
  }
  const api_key = at("key").value || undefined;
  if (body instanceof FormData) {
    if (api_key) body.set("api_key", api_key);
    Object.assign(options, { method: "POST", body });
  } else if (body) {
    const headers = { "Content-Type": "application/json" };
    Object.assign(options, { method: "POST", headers, body: JSON.stringify({ ...body, api_key }) });
  }
  let response;
  try {
    response = await fetch(path, options);
    if (response.ok) return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    if (error.name === "TimeoutError")
      throw new Trouble(`The server did not answer within ${patience / 1000} seconds.`, RETRY);
    if (error instanceof SyntaxError)
      throw new Trouble("The server answered something else than a translation (no JSON).");
    throw new Trouble("The server cannot be reached. Your text stays here.", RETRY);
  }
  throw await refusal(response);
}

let retry = 0;

/** Shows an error; null hides it. Calls `again` automatically if a retry may help. */
export function showTrouble(error, again) {
  clearTimeout(retry);
  at("trouble").hidden = !error;
  if (!error) return;
  const isExpected = error instanceof Trouble;
  if (!isExpected) console.error(error);
  const message = isExpected ? error.message : `This page failed: ${error.message}`;
  if (at("trouble-text").textContent !== message) at("trouble-text").textContent = message;
  at("again").onclick = again;
  if (error.wait) retry = setTimeout(again, error.wait);
}
