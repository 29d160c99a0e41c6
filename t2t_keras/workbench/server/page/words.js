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

/** Splits a text into words, made by `make(word, index)`, and the text between them. */
function parts(text, words, make) {
  const pieces = [];
  let end = 0;
  words.forEach((word, index) => {
    const start = text.indexOf(word, end);
    if (start < 0) return;
    pieces.push(text.slice(end, start), make(word, index));
    end = start + word.length;
  });
  return [...pieces, text.slice(end)];
}

/** Indices of the aligned words of the other side. */
function partners({ alignment }, side, index) {
  const [here, there] = side === "sources" ? [0, 1] : [1, 0];
  const indices = alignment.filter((link) => link[here] === index).map((link) => link[there]);
  return [...new Set(indices)].sort((one, other) => one - other);
}

/** Describes a word: its confidence, and the aligned words. */
function describe(line, side, index) {
  const indices = partners(line, side, index);
  if (side === "sources") {
    const into = indices.map((number) => line.words[number]?.text).filter(Boolean);
    return into.length ? quoted(into) : "";
  }
  const { confidence } = line.words[index];
  const from = indices.map((number) => line.source_words[number]).filter(Boolean);
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
  // The old translation stays visible, but it is of another line: its words cannot be chosen.
  view.output.inert = isAwaited;
  if (isAwaited) return;
  const words = line?.words.map(({ text }) => text) ?? [];
  const make = (text, number) => (view.targets[number] = targetWord(line, text, number));
  view.output.replaceChildren(...parts(line?.text ?? "", words, make));
}

/** Redraws the changed lines. */
export function draw() {
  const lines = sourceLines();
  lines.forEach(drawLine);
  for (const view of state.views.splice(lines.length)) {
    if (state.menu?.view === view) state.menu.close();
    view.mirror.remove();
    view.output.remove();
  }
  // One word is in the tab order.
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

/** Marks the hovered or else the focused word, and the aligned ones. */
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

/** Sets the "hovered" or "focused" word, or none. */
export function point(how, wordRef = null) {
  const before = state[how];
  if (["view", "side", "index"].every((key) => before?.[key] === wordRef?.[key])) return;
  state[how] = wordRef;
  showPointed();
}

/** Returns the source word at a point of the screen. */
export function sourceWordAt(x, y) {
  const holds = ({ left, right, top, bottom }) =>
    left <= x && x <= right && top <= y && y <= bottom;
  const view = state.views.find(({ mirror }) => holds(mirror.getBoundingClientRect()));
  const index = view?.sources.findIndex((word) => [...word.getClientRects()].some(holds)) ?? -1;
  return index < 0 ? null : { side: "sources", view, index };
}

/** Returns the source word that the caret is in, or at the end of. */
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

/** Returns the word of the translation for a node of the page, or undefined. */
export const targetWordOf = (node) => targetWords().find(({ word }) => word === node);

/** Focuses a word of the translation, and puts it into the tab order. */
export function focusWord(wordRef) {
  if (!wordRef) return;
  for (const { word } of targetWords()) word.tabIndex = word === wordRef.word ? 0 : -1;
  wordRef.word.focus();
}

/** The nearest word in the next row above (-1) or below (1). */
function wordInRow(words, from, step) {
  const boxOf = ({ word }) => word.getClientRects()[0];
  const here = boxOf(from);
  const rows = words.filter((other) => step * (boxOf(other).top - here.top) > here.height / 2);
  const row = Math.min(...rows.map((other) => step * boxOf(other).top));
  const inRow = rows.filter((other) => step * boxOf(other).top - row < here.height / 2);
  const distance = (other) => Math.abs(boxOf(other).left - here.left);
  return inRow.sort((one, other) => distance(one) - distance(other))[0];
}

/** Returns the word that a key moves to, or undefined. */
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
