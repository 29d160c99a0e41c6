// @ts-check
// Live translation: requests the lines that have no translation yet, while the text is typed.

import { glossary } from "./glossary.js";
import { detect, forgetDetected, pair } from "./languages.js";
import { ask, showTrouble, Trouble } from "./server.js";
import { at, state } from "./state.js";
import { strings } from "./strings.js";
import { draw, sourceLines, translation } from "./words.js";

const LINES_PER_REQUEST = { first: 16, max: 256 }; // A long text is translated in parts.
const MAX_KNOWN_LINES = 2000;
// Python splits lines at these characters, but this page does not: it sends spaces instead.
const OTHER_LINE_ENDS = /[\v\f\r\x1c-\x1e\x85\u2028\u2029]/g;

let request = new AbortController();
let timer = 0;

/**
 * Translates after a pause in milliseconds; another call restarts the pause.
 *
 * @param {number} pause
 */
export function schedule(pause) {
  request.abort();
  clearTimeout(timer);
  timer = setTimeout(translate, pause);
  draw();
}

/**
 * Discards all translations, as languages or terms have changed.
 *
 * @param {number} pause
 */
export function forget(pause) {
  state.known.clear();
  schedule(pause);
}

/** Returns the distinct lines of the text that have no translation yet. */
export const unknownLines = () =>
  [...new Set(sourceLines())].filter((line) => line.trim() && !state.known.has(line));

/** @param {boolean} isWaiting */
function showWaiting(isWaiting) {
  at("target-pane").classList.toggle("waiting", isWaiting);
  at("target").ariaBusy = String(isWaiting);
}

/** @type {(lines: string[], signal: AbortSignal) => Promise<void>} */
async function translateLines(lines, signal) {
  const q = lines.map((line) => line.replace(OTHER_LINE_ENDS, " ")).join("\n");
  const body = { q, ...pair(), glossary: glossary() };
  const answers = (await ask("page/translate", { body, signal })).lines;
  if (answers.length !== lines.length)
    throw new Trouble(strings.wrongCount(answers.length, lines.length));
  lines.forEach((line, index) => {
    state.known.set(line, { best: answers[index], shown: answers[index] });
  });
}

/** Translates the missing lines of the text; aborts an earlier request. */
export async function translate() {
  request.abort();
  clearTimeout(timer);
  if (!state.languages.length) return; // The server has not answered yet.
  request = new AbortController();
  const { signal } = request;
  const text = at("source").value;
  if (!text.trim()) forgetDetected();
  const canTranslate = text.trim() !== "" && [...text].length <= state.limit;
  try {
    if (canTranslate && unknownLines().length) {
      showWaiting(true);
      await detect(text, signal);
    }
    // A newly detected language starts another request, which aborts this one.
    for (let count = LINES_PER_REQUEST.first; canTranslate && !signal.aborted; count *= 2) {
      const lines = unknownLines().slice(0, Math.min(count, LINES_PER_REQUEST.max));
      if (!lines.length) break;
      await translateLines(lines, signal);
      draw();
    }
    if (signal.aborted) return;
    showTrouble(null);
    announceAndForget();
  } catch (error) {
    if (!signal.aborted) showTrouble(error, translate);
  }
  if (!signal.aborted) showWaiting(false);
}

/** Announces the translation to screen readers, and forgets old lines. */
function announceAndForget() {
  const current = new Set(sourceLines());
  if (state.known.size > MAX_KNOWN_LINES)
    for (const line of state.known.keys()) if (!current.has(line)) state.known.delete(line);
  if (at("announcement").textContent !== translation())
    at("announcement").textContent = translation();
}
