// @ts-check
// Requests to the server, and messages about their errors.

import { at } from "./state.js";
import { strings } from "./strings.js";

const PATIENCE = 60_000; // Milliseconds for an answer.
const RETRY_DELAY = 5_000;

/** An error with a message for the user. */
export class Trouble extends Error {
  /**
   * @param {string} message
   * @param {number} wait Milliseconds until a retry may help; 0 = a retry does not help.
   */
  constructor(message, wait = 0) {
    super(message);
    this.wait = wait;
  }
}

/**
 * Returns the message of any error.
 *
 * @param {unknown} error
 */
export const messageOf = (error) => (error instanceof Error ? error.message : String(error));

/** @param {Response} response */
async function refusalOf(response) {
  const { error } = (await response.json().catch(() => null)) ?? {};
  const reason = typeof error === "string" ? error.replace(/\.?$/, ".") : "";
  if (response.status === 429) {
    const seconds = Number(response.headers.get("Retry-After"));
    const wait = seconds ? strings.waitSeconds(seconds) : strings.waitMoment;
    return new Trouble(`${strings.tooManyRequests} ${wait}`, 1000 * seconds || RETRY_DELAY);
  }
  if (response.status === 401 || response.status === 403) {
    at("key-form").hidden = false;
    return new Trouble(`${reason || strings.keyRequired} ${strings.enterKey}`);
  }
  if (response.status < 500) return new Trouble(reason || strings.refused(response.status));
  const message = strings.failed(response.status) + (reason ? `: ${reason}` : ".");
  return new Trouble(message, [502, 503, 504].includes(response.status) ? RETRY_DELAY : 0);
}

/**
 * Sends a request, and returns the JSON of the answer.
 *
 * @param {string} path
 * @param {object} [options]
 * @param {FormData | Record<string, unknown>} [options.body] Posted as a form or as JSON.
 * @param {AbortSignal} [options.signal] Aborts the request.
 * @param {number} [options.patience] Milliseconds to wait for the answer.
 * @returns {Promise<any>}
 */
export async function ask(path, { body, signal, patience = PATIENCE } = {}) {
  const signals = [
    ...(signal ? [signal] : []),
    ...(patience < Infinity ? [AbortSignal.timeout(patience)] : []),
  ];
  /** @type {RequestInit} */
  const options = { signal: AbortSignal.any(signals) };
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
    if (error instanceof DOMException && error.name === "TimeoutError")
      throw new Trouble(strings.noAnswer(patience / 1000), RETRY_DELAY);
    if (error instanceof SyntaxError) throw new Trouble(strings.noJson);
    throw new Trouble(strings.unreachable, RETRY_DELAY);
  }
  throw await refusalOf(response);
}

let retryTimer = 0;
let tryAgain = () => {};

/**
 * Shows an error; null hides the message. Calls `again` automatically if a retry may help.
 *
 * @param {unknown} error
 * @param {() => void} [again]
 */
export function showTrouble(error, again = () => {}) {
  clearTimeout(retryTimer);
  at("trouble").hidden = !error;
  if (!error) return;
  const message = messageOf(error);
  const isExpected = error instanceof Trouble;
  if (!isExpected) console.error(error);
  const shown = isExpected ? message : strings.pageFailed(message);
  const advice = message === strings.unreachable ? ` ${strings.textStays}` : "";
  if (at("trouble-text").textContent !== shown + advice)
    at("trouble-text").textContent = shown + advice;
  tryAgain = again;
  if (isExpected && error.wait) retryTimer = setTimeout(again, error.wait);
}

export function listenToTrouble() {
  at("again").addEventListener("click", () => tryAgain());
}
