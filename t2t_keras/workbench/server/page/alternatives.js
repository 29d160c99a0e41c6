// @ts-check
// The menu under a word of the translation: other words, which also change the rest of the line,
// and other translations of the whole line.

import { glossary } from "./glossary.js";
import { pair } from "./languages.js";
import { ask, messageOf } from "./server.js";
import { around, at, element, state } from "./state.js";
import { language, strings } from "./strings.js";
import { draw, focusWord, point, wordOf } from "./words.js";

/** @import { Alternative, Line, Word, WordRef } from "./state.js" */

const MARGIN = 12; // Pixels between the menu and the edges of the window.
const MIN_HEIGHT = 120; // Pixels.
const ITEM = "[role=menuitem]";

/** @type {WeakMap<Element, Line>} */
const lineOfItem = new WeakMap();

/** @param {WordRef} wordRef */
export async function openMenu(wordRef) {
  state.menu?.close();
  focusWord(wordRef);
  const { view, word } = wordRef;
  const request = new AbortController();
  const close = () => {
    request.abort();
    state.menu = null;
    at("menu").hidden = true;
    word.ariaExpanded = null;
  };
  state.menu = { ...wordRef, close };
  point("focused", wordRef);
  word.ariaExpanded = "true";
  showMenu([heading(strings.lookingForAlternatives)], true);
  at("menu").focus({ preventScroll: true });
  const prefix = textBefore(wordRef);
  const body = { q: view.source, ...pair(), prefix, glossary: glossary() };
  try {
    const { alternatives } = await ask("page/alternatives", { body, signal: request.signal });
    showMenu(entries(wordRef, alternatives, prefix));
  } catch (error) {
    if (request.signal.aborted) return;
    showMenu([heading(messageOf(error), "bad"), ...entries(wordRef, [], prefix)]);
  }
  items()[0]?.focus({ preventScroll: true });
}

/** @param {WordRef} wordRef */
function textBefore({ view, word }) {
  const range = document.createRange();
  range.setStart(view.output, 0);
  range.setEndBefore(word);
  return range.toString().trimEnd();
}

/** @type {(wordRef: WordRef, alternatives: Alternative[], prefix: string) => HTMLElement[]} */
function entries({ view, index }, alternatives, prefix) {
  const shown = /** @type {Line} */ (view.line);
  const { best } = /** @type {{best: Line}} */ (state.known.get(view.source ?? ""));
  const seen = new Set([shown.text]);
  const isNew = (/** @type {{text: string}} */ { text }) => !seen.has(text) && seen.add(text);
  const wordEntries = alternatives.filter(isNew).map((alternative) => {
    const rest = alternative.text.slice(prefix.length).trimStart().slice(alternative.word.length);
    const line = withNewEnd(shown, index, alternative);
    const content = element("span", {}, element("b", { textContent: alternative.word }), rest);
    return entry(line, content, ...confidenceLabel(line.words[index]));
  });
  const otherLines = best.alternatives.map((text) => withNewEnd(best, 0, { text }));
  const lineEntries = [best, ...otherLines]
    .filter(isNew)
    .map((line) => entry(line, element("span", { className: "whole", textContent: line.text })));
  const instead = strings.insteadOf(strings.quoted([shown.words[index].text]));
  return [
    ...(wordEntries.length ? [heading(instead), ...wordEntries] : []),
    ...(lineEntries.length ? [heading(strings.wholeLine), ...lineEntries] : []),
    ...(wordEntries.length + lineEntries.length ? [] : [noEntry()]),
  ];
}

/** @param {Word} word */
function confidenceLabel({ confidence }) {
  if (typeof confidence !== "number") return [];
  const textContent = confidence < 0.01 ? "< 1 %" : `${Math.floor(100 * confidence)} %`;
  return [element("small", { textContent, lang: language, dir: "ltr" })];
}

/** @type {(textContent: string, className?: string) => HTMLElement} */
const heading = (textContent, className = "") =>
  element("div", { textContent, className, lang: language, role: "presentation" });

const noEntry = () =>
  element("div", {
    textContent: strings.noAlternatives,
    lang: language,
    role: "menuitem",
    ariaDisabled: "true",
    tabIndex: -1,
  });

/** @type {(line: Line, ...content: Node[]) => HTMLElement} */
function entry(line, ...content) {
  const attributes = { type: /** @type {const} */ ("button"), role: "menuitem", tabIndex: -1 };
  const item = element("button", { ...attributes, dir: "auto" }, ...content);
  lineOfItem.set(item, line);
  return item;
}

/**
 * Returns a line that continues as an alternative from a word on, with the server's data if any.
 *
 * @param {Line} line
 * @param {number} index
 * @param {Partial<Alternative> & {text: string}} alternative
 * @returns {Line}
 */
function withNewEnd(line, index, { text, words, alignment }) {
  const newWords = text.trim().split(/\s+/).slice(index);
  return {
    ...line,
    text,
    words: words ?? [...line.words.slice(0, index), ...newWords.map((word) => ({ text: word }))],
    alignment: alignment ?? line.alignment.filter(([, target]) => target < index),
  };
}

/** @param {Line} line */
function choose(line) {
  if (!state.menu) return;
  const { view, index, close } = state.menu;
  const translations = state.known.get(view.source ?? "");
  if (translations) translations.shown = line;
  close();
  draw();
  focusWord(wordOf(view.targets[Math.min(index, view.targets.length - 1)]));
  at("announcement").textContent = line.text;
}

/** @type {(content: HTMLElement[], isBusy?: boolean) => void} */
function showMenu(content, isBusy = false) {
  at("menu").replaceChildren(...content);
  at("menu").ariaBusy = String(isBusy);
  at("menu").hidden = false;
  placeMenu();
}

/** Places the menu under its word, or above it if there is more room. */
function placeMenu() {
  if (!state.menu) return;
  const menu = at("menu");
  const box = state.menu.word.getClientRects()[0];
  const [roomAbove, roomBelow] = [box.top - MARGIN, window.innerHeight - box.bottom - MARGIN];
  menu.style.maxHeight = "";
  const isAbove = menu.offsetHeight > roomBelow && roomAbove > roomBelow;
  menu.style.maxHeight = `${Math.max(isAbove ? roomAbove : roomBelow, MIN_HEIGHT)}px`;
  const top = isAbove ? Math.max(box.top - menu.offsetHeight - 6, 4) : box.bottom + 6;
  const rightmost = document.documentElement.clientWidth - menu.offsetWidth - MARGIN;
  menu.style.left = `${Math.max(MARGIN, Math.min(box.left - 8, rightmost)) + window.scrollX}px`;
  menu.style.top = `${top + window.scrollY}px`;
}

const items = () => /** @type {HTMLElement[]} */ ([...at("menu").querySelectorAll(ITEM)]);

/**
 * Moves with the arrow keys, Home and End; Escape and Tab close the menu.
 *
 * @param {KeyboardEvent} event
 */
function moveInMenu(event) {
  const current = items().indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const { length } = items();
  /** @type {Record<string, number>} */
  const moves = {
    ArrowDown: (current + 1) % length,
    ArrowUp: (Math.max(current, 0) + length - 1) % length,
    Home: 0,
    End: length - 1,
  };
  if (event.key in moves) items()[moves[event.key]]?.focus();
  else if (event.key === "Escape" || event.key === "Tab") {
    const word = state.menu?.word;
    state.menu?.close();
    word?.focus();
  } else return;
  if (event.key !== "Tab") event.preventDefault();
}

export function listenToMenu() {
  const menu = at("menu");
  menu.addEventListener("click", (event) => {
    const item = around(event, ITEM);
    const line = item && lineOfItem.get(item);
    if (line) choose(line);
  });
  // Mouse and keyboard highlight the same item.
  menu.addEventListener("pointermove", (event) =>
    around(event, ITEM)?.focus({ preventScroll: true }),
  );
  menu.addEventListener("keydown", moveInMenu);
  document.addEventListener("pointerdown", (event) => {
    if (state.menu && !around(event, "#menu")) {
      state.menu.close();
      point("focused");
    }
  });
  window.addEventListener("resize", placeMenu);
}
