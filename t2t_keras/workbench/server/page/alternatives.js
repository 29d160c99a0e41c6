// The menu under a word of the translation: other words, each with a new rest of the line, and
// other translations of the whole line.

import { glossary } from "./glossary.js";
import { pair } from "./languages.js";
import { ask } from "./server.js";
import { at, element, quoted, state } from "./state.js";
import { draw, focusWord, point, targetWordOf } from "./words.js";

const MARGIN = 12; // Pixels between the menu and the ends of the window.
const LEAST_HEIGHT = 120;

export async function openMenu(wordRef) {
  state.menu?.close();
  focusWord(wordRef);
  const { view, index, word } = wordRef;
  const request = new AbortController();
  const close = () => {
    request.abort();
    state.menu = null;
    at("menu").hidden = true;
    word.removeAttribute("aria-expanded");
  };
  state.menu = { view, index, word, close };
  point("focused", wordRef);
  word.setAttribute("aria-expanded", "true");
  showMenu([element("p", { textContent: "Looking for alternatives …", lang: "en" })]);
  at("menu").focus({ preventScroll: true });
  const prefix = textBefore(wordRef);
  const body = { q: view.source, ...pair(), prefix, glossary: glossary() };
  try {
    const { alternatives } = await ask("page/alternatives", { body, signal: request.signal });
    showMenu(entries(alternatives, prefix));
  } catch (error) {
    if (request.signal.aborted) return;
    const trouble = element("p", { textContent: error.message, className: "bad", lang: "en" });
    showMenu([trouble, ...entries([], prefix)]);
  }
  at("menu").querySelector("[role=menuitem]")?.focus({ preventScroll: true });
}

function textBefore({ view, word }) {
  const range = document.createRange();
  range.setStart(view.output, 0);
  range.setEndBefore(word);
  return range.toString().trimEnd();
}

function entries(alternatives, prefix) {
  const { view, index } = state.menu;
  const { best } = state.known.get(view.source);
  const isNew = new Set([view.line.text]);
  const addsNew = ({ text }) => !isNew.has(text) && isNew.add(text);
  const words = alternatives.filter(addsNew).map((alternative) => {
    const rest = alternative.text.slice(prefix.length).trimStart().slice(alternative.word.length);
    const line = continued(view.line, index, alternative);
    const next = element("span", {}, element("b", { textContent: alternative.word }), rest);
    return entry(line, next, ...share(line.words[index]));
  });
  const others = best.alternatives.map((text) => continued(best, 0, { text }));
  const lines = [best, ...others].filter(addsNew);
  const whole = lines.map((line) =>
    entry(line, element("span", { className: "whole", textContent: line.text })),
  );
  const instead = `Instead of ${quoted([view.line.words[index].text])}`;
  return [
    ...(words.length ? [heading(instead), ...words] : []),
    ...(whole.length ? [heading("The whole line"), ...whole] : []),
    ...(words.length + whole.length ? [] : [heading("No alternatives.")]),
  ];
}

function share({ confidence }) {
  if (!Number.isFinite(confidence)) return [];
  const textContent = confidence < 0.01 ? "< 1 %" : `${Math.floor(100 * confidence)} %`;
  return [element("small", { textContent, lang: "en", dir: "ltr" })];
}

function heading(textContent) {
  const title = element("div", { textContent, lang: "en" });
  title.setAttribute("role", "presentation");
  return title;
}

function entry(line, ...content) {
  const item = element("button", { type: "button", tabIndex: -1, dir: "auto" }, ...content);
  item.setAttribute("role", "menuitem");
  item.addEventListener("click", () => choose(line));
  // Mouse and keyboard highlight the same single item.
  item.addEventListener("pointermove", () => item.focus({ preventScroll: true }));
  return item;
}

/** A line with another end; its new words have the server's data, if any. */
function continued(line, index, { text, words, alignment }) {
  const others = text.trim().split(/\s+/).slice(index);
  return {
    ...line,
    text,
    words: words ?? [...line.words.slice(0, index), ...others.map((other) => ({ text: other }))],
    alignment: alignment ?? line.alignment.filter(([, target]) => target < index),
  };
}

function choose(line) {
  const { view, index, close } = state.menu;
  state.known.get(view.source).shown = line;
  close();
  draw();
  focusWord(targetWordOf(view.targets[Math.min(index, view.targets.length - 1)]));
  at("announcement").textContent = line.text;
}

function showMenu(content) {
  at("menu").replaceChildren(...content);
  at("menu").hidden = false;
  placeMenu();
}

/** Places the menu under its word, or above it if there is more room. */
export function placeMenu() {
  const menu = at("menu");
  const box = state.menu.word.getClientRects()[0];
  const [above, below] = [box.top - MARGIN, window.innerHeight - box.bottom - MARGIN];
  menu.style.maxHeight = "";
  const isAbove = menu.offsetHeight > below && above > below;
  menu.style.maxHeight = `${Math.max(isAbove ? above : below, LEAST_HEIGHT)}px`;
  const top = isAbove ? Math.max(box.top - menu.offsetHeight - 6, 4) : box.bottom + 6;
  const rightmost = document.documentElement.clientWidth - menu.offsetWidth - MARGIN;
  menu.style.left = `${Math.max(MARGIN, Math.min(box.left - 8, rightmost)) + window.scrollX}px`;
  menu.style.top = `${top + window.scrollY}px`;
}

/** Arrow keys cycle; Escape and Tab close the menu. */
export function moveInMenu(event) {
  const items = [...at("menu").querySelectorAll("[role=menuitem]")];
  const now = items.indexOf(document.activeElement);
  const moves = {
    ArrowDown: (now + 1) % items.length,
    ArrowUp: (Math.max(now, 0) + items.length - 1) % items.length,
    Home: 0,
    End: items.length - 1,
  };
  if (event.key in moves) items[moves[event.key]]?.focus();
  else if (event.key === "Escape" || event.key === "Tab") {
    const { word, close } = state.menu;
    close();
    word.focus();
  } else return;
  if (event.key !== "Tab") event.preventDefault();
}
