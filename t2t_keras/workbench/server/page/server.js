// Asking the server, and what goes wrong with that in words for the reader.

import { at, counted } from "./state.js";

const PATIENCE = 60_000; // Milliseconds for an answer.
const RETRY = 5_000;

/** What went wrong, in plain words; another try may do after `wait` milliseconds, if that is not 0. */
export class Trouble extends Error {
  constructor(message, wait = 0) {
    super(message);
    this.wait = wait;
  }
}

async function refusal(response) {
  const { error } = (await response.json().catch(() => null)) ?? {};
  const said = typeof error === "string" ? error.replace(/\.?$/, ".") : "";
  if (response.status === 429) {
    const seconds = Number(response.headers.get("Retry-After"));
    const wait = seconds ? `Wait ${counted(seconds, "second")}.` : "Wait a moment.";
    return new Trouble(`Too many requests. ${wait}`, 1000 * seconds || RETRY);
  }
  if (response.status === 401 || response.status === 403) {
    at("key-form").hidden = false;
    return new Trouble(`${said || "The server wants an API key."} Enter the key above.`);
  }
  if (response.status < 500)
    return new Trouble(said || `The server refused the request (${response.status}).`);
  const message = `The server failed (${response.status})${said ? `: ${said}` : "."}`;
  return new Trouble(message, [502, 503, 504].includes(response.status) ? RETRY : 0);
}

/**
 * Asks the server, and returns the JSON that it answers.
 *
 * A `body` is posted: a form as it is, all else as JSON. `signal` aborts; only a request with a
 * `patience` ends by itself.
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

/** Shows what went wrong, until it is called with null. Asks `again` by itself if that may do. */
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
