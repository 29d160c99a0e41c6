// The lines of both panes, word by word: confidence, alignment, and moving among words.
//
// The text area lies over a mirror of its text, where the words are elements that can be marked.

import { at, counted, element, quoted, state } from "./state.js";

const DOUBTS = [0.9, 0.7, 0.4]; // A word under the first is shaded, one under the last the most.

export const sourceLines = () => at("source").value.split("\n");
export const shownLine = (source) => state.known.get(source)?.shown;
export const translation = () =>
  sourceLines()
    .map((source) => shownLine(source)?.text ?? "")
    .join("\n");

/** Parts of a text: each word by `make(word, index)`, and what is between them as it is. */
function parts(text, words, make) {
  const made = [];
  let end = 0;
  words.forEach((word, index) => {
    const start = text.indexOf(word, end);
    if (start < 0) return;
    made.push(text.slice(end, start), make(word, index));
    end = start + word.length;
  });
  return [...made, text.slice(end)];
}

/** Indices of the words of the other side that belong to a word. */
function partners({ alignment }, side, index) {
  const [here, there] = side === "sources" ? [0, 1] : [1, 0];
  const found = alignment.filter((each) => each[here] === index).map((each) => each[there]);
  return [...new Set(found)].sort((one, other) => one - other);
}

/** What is known of a word besides itself. */
function describe(line, side, index) {
  const found = partners(line, side, index);
  if (side === "sources") {
    const into = found.map((each) => line.words[each]?.text).filter(Boolean);
    return into.length ? quoted(into) : "";
  }
  const { confidence } = line.words[index];
  const from = found.map((each) => line.source_words[each]).filter(Boolean);
  const about = [
    Number.isFinite(confidence) ? `${Math.floor(100 * confidence)} % sure` : "",
    from.length ? `from ${quoted(from)}` : "",
  ];
  return about.filter(Boolean).join(", ");
}

function targetWord(line, text, index) {
  const { confidence } = line.words[index];
  const word = element("span", { className: "word", textContent: text, tabIndex: -1 });
  word.setAttribute("role", "button");
  word.setAttribute("aria-haspopup", "menu");
  word.setAttribute("aria-description", describe(line, "targets", index));
  const doubt = DOUBTS.filter((limit) => confidence !== null && confidence < limit).length;
  if (doubt) word.dataset.doubt = doubt;
  return word;
}

function viewAt(index) {
  if (!state.views[index]) {
    const view = {
      mirror: element("div", { dir: "auto" }),
      output: element("div", { dir: "auto" }),
    };
    at("mirror").append(view.mirror);
    at("target").append(view.output);
    state.views[index] = view;
  }
  return state.views[index];
}

function drawLine(source, index) {
  const view = viewAt(index);
  const line = shownLine(source);
  if (view.source === source && view.line === line) return;
  if (state.menu?.view === view) state.menu.close();
  Object.assign(view, { source, line, sources: [], targets: [] });
  const mark = (text, number) =>
    (view.sources[number] = element("span", { className: "word", textContent: text }));
  view.mirror.replaceChildren(...parts(source, line?.source_words ?? [], mark));
  const isAwaited = Boolean(!line && source.trim());
  view.output.classList.toggle("stale", isAwaited);
  // What stood here stays to be read, but it is no answer to this line: nothing to choose.
  view.output.inert = isAwaited;
  if (isAwaited) return;
  const words = line?.words.map(({ text }) => text) ?? [];
  const make = (text, number) => (view.targets[number] = targetWord(line, text, number));
  view.output.replaceChildren(...parts(line?.text ?? "", words, make));
}

/** Draws what has changed since the last time. */
export function draw() {
  const lines = sourceLines();
  lines.forEach(drawLine);
  for (const view of state.views.splice(lines.length)) {
    if (state.menu?.view === view) state.menu.close();
    view.mirror.remove();
    view.output.remove();
  }
  // The keyboard comes in at one word.
  const words = targetWords();
  if (words.length && !words.some(({ word }) => word.tabIndex === 0)) words[0].word.tabIndex = 0;
  state.hovered = null;
  showPointed();
  drawCount();
}

function drawCount() {
  const text = at("source").value;
  const length = [...text].length; // Code points, as the server counts.
  const over = length - state.limit;
  at("count").classList.toggle("over", over > 0);
  if (over > 0) {
    const limit = state.limit.toLocaleString("en");
    at("count").textContent = `${counted(over, "character")} over the limit of ${limit}`;
  } else if (state.limit < Infinity)
    at("count").textContent =
      `${length.toLocaleString("en")} / ${counted(state.limit, "character")}`;
  else at("count").textContent = counted(length, "character");
  at("clear").disabled = !text;
  at("copy").disabled = !text.trim();
}

/** Marks the word that is pointed at, or else the focused one, and those that belong to it. */
function showPointed() {
  for (const word of document.querySelectorAll(".pointed, .aligned"))
    word.classList.remove("pointed", "aligned");
  at("about").textContent = "";
  const { side, view, index } = state.hovered ?? state.focused ?? {};
  const word = view?.line && view[side][index];
  if (!word?.isConnected) return;
  word.classList.add("pointed");
  const other = side === "sources" ? "targets" : "sources";
  for (const partner of partners(view.line, side, index))
    view[other][partner]?.classList.add("aligned");
  const about = describe(view.line, side, index);
  const link = side === "sources" ? " → " : ": ";
  at("about").textContent = [quoted([word.textContent]), about].filter(Boolean).join(link);
}

/** Points at a word, or at none: how is "hovered" or "focused". */
export function point(how, found = null) {
  const before = state[how];
  if (["view", "side", "index"].every((key) => before?.[key] === found?.[key])) return;
  state[how] = found;
  showPointed();
}

/** The word of the text at a point of the screen. */
export function sourceWordAt(x, y) {
  const holds = ({ left, right, top, bottom }) =>
    left <= x && x <= right && top <= y && y <= bottom;
  const view = state.views.find(({ mirror }) => holds(mirror.getBoundingClientRect()));
  const index = view?.sources.findIndex((word) => [...word.getClientRects()].some(holds)) ?? -1;
  return index < 0 ? null : { side: "sources", view, index };
}

/** The word of the text that the caret is in, or at the end of. */
export function sourceWordAtCaret() {
  const before = at("source").value.slice(0, at("source").selectionStart).split("\n");
  const view = state.views[before.length - 1];
  let start = 0;
  for (const node of view?.mirror.childNodes ?? []) {
    const end = start + node.textContent.length;
    const index = view.sources.indexOf(node);
    const caret = before.at(-1).length;
    if (index >= 0 && start <= caret && caret <= end) return { side: "sources", view, index };
    start = end;
  }
  return null;
}

function targetWords() {
  const ofView = (view) =>
    view.targets.map((word, index) => ({ side: "targets", view, index, word }));
  return state.views.flatMap(ofView);
}

/** The word of the translation that a node of the page is, or undefined. */
export const targetWordOf = (node) => targetWords().find(({ word }) => word === node);

/** Focuses a word of the translation, where the keyboard then comes in. */
export function focusWord(found) {
  if (!found) return;
  for (const { word } of targetWords()) word.tabIndex = word === found.word ? 0 : -1;
  found.word.focus();
}

/** The nearest word in the next row above (-1) or below (1). */
function wordInRow(words, from, step) {
  const boxOf = ({ word }) => word.getClientRects()[0];
  const here = boxOf(from);
  const rows = words.filter((each) => step * (boxOf(each).top - here.top) > here.height / 2);
  const row = Math.min(...rows.map((each) => step * boxOf(each).top));
  const inRow = rows.filter((each) => step * boxOf(each).top - row < here.height / 2);
  const distance = (each) => Math.abs(boxOf(each).left - here.left);
  return inRow.sort((one, other) => distance(one) - distance(other))[0];
}

/** Returns the word that a key leads to from another, undefined if there is none. */
export function wordByKey(key, from) {
  const words = targetWords();
  const now = words.findIndex(({ word }) => word === from.word);
  const right = getComputedStyle(from.view.output).direction === "rtl" ? -1 : 1;
  switch (key) {
    case "ArrowRight":
      return words[now + right];
    case "ArrowLeft":
      return words[now - right];
    case "ArrowDown":
      return wordInRow(words, words[now], 1);
    case "ArrowUp":
      return wordInRow(words, words[now], -1);
    case "Home":
      return words[0];
    case "End":
      return words.at(-1);
    default:
      return undefined;
  }
}
