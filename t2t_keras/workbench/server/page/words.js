// @ts-check
// The lines of both panes, word by word: confidence, alignment, and moving among words.
//
// The text area lies over a mirror of its text, in which words are elements that can be marked.

import { at, element, state } from "./state.js";
import { strings } from "./strings.js";

/** @import { Line, Side, View, WordRef } from "./state.js" */

const DOUBTS = [0.9, 0.7, 0.4]; // The more of these limits a confidence misses, the darker.

/** @type {WeakMap<Node, WordRef>} */
const wordRefs = new WeakMap();
let marked = /** @type {HTMLElement[]} */ ([]);
let tabStop = /** @type {HTMLElement | null} */ (null); // The word in the tab order.

export const sourceLines = () => at("source").value.split("\n");

/** @param {string} source */
export const shownLine = (source) => state.known.get(source)?.shown;

export const translation = () =>
  sourceLines()
    .map((source) => shownLine(source)?.text ?? "")
    .join("\n");

/**
 * Splits a text into words, for which `make(word, index)` makes elements, and the text between.
 *
 * @param {string} text
 * @param {string[]} words
 * @param {(word: string, index: number) => HTMLElement} make
 */
function splitAtWords(text, words, make) {
  const nodes = /** @type {(string | HTMLElement)[]} */ ([]);
  let end = 0;
  words.forEach((word, index) => {
    const start = text.indexOf(word, end);
    if (start < 0) return;
    nodes.push(text.slice(end, start), make(word, index));
    end = start + word.length;
  });
  return [...nodes, text.slice(end)];
}

/**
 * Returns the indices of the words on the other side that are aligned with a word.
 *
 * @param {Line} line
 * @param {Side} side
 * @param {number} index
 */
function alignedIndices({ alignment }, side, index) {
  const [here, there] = side === "sources" ? [0, 1] : [1, 0];
  const indices = alignment.filter((link) => link[here] === index).map((link) => link[there]);
  return [...new Set(indices)].sort((one, other) => one - other);
}

/**
 * Describes a word: its confidence, and the aligned words.
 *
 * @param {Line} line
 * @param {Side} side
 * @param {number} index
 */
function describe(line, side, index) {
  const indices = alignedIndices(line, side, index);
  if (side === "sources") {
    const targets = indices.map((number) => line.words[number]?.text).filter(Boolean);
    return targets.length ? strings.quoted(targets) : "";
  }
  const { confidence } = line.words[index];
  const sources = indices.map((number) => line.source_words[number]).filter(Boolean);
  const notes = [
    typeof confidence === "number" ? strings.sure(Math.floor(100 * confidence)) : "",
    sources.length ? strings.from(strings.quoted(sources)) : "",
  ];
  return notes.filter(Boolean).join(", ");
}

/**
 * Makes the element of a word.
 *
 * @param {View} view
 * @param {Side} side
 * @param {string} text
 * @param {number} index
 */
function makeWord(view, side, text, index) {
  const word = element("span", { className: "word", textContent: text });
  wordRefs.set(word, { side, view, index, word });
  view[side][index] = word;
  return word;
}

/** @type {(view: View, line: Line, text: string, index: number) => HTMLElement} */
function makeTargetWord(view, line, text, index) {
  const { confidence } = line.words[index];
  const ariaDescription = describe(line, "targets", index);
  const attributes = { role: "button", ariaHasPopup: "menu", ariaDescription, tabIndex: -1 };
  const word = Object.assign(makeWord(view, "targets", text, index), attributes);
  const limits = DOUBTS.filter((limit) => typeof confidence === "number" && confidence < limit);
  if (limits.length) word.dataset.doubt = String(limits.length);
  return word;
}

/** @param {number} index */
function viewAt(index) {
  if (!state.views[index]) {
    const mirror = element("div", { dir: "auto" });
    const output = element("div", { dir: "auto" });
    at("mirror").append(mirror);
    at("target").append(output);
    state.views[index] = {
      source: null,
      line: undefined,
      mirror,
      output,
      sources: [],
      targets: [],
    };
  }
  return state.views[index];
}

/** @type {(source: string, index: number) => void} */
function drawLine(source, index) {
  const view = viewAt(index);
  const line = shownLine(source);
  if (view.source === source && view.line === line) return;
  if (state.menu?.view === view) state.menu.close();
  Object.assign(view, { source, line, sources: [], targets: [] });
  view.mirror.replaceChildren(
    ...splitAtWords(source, line?.source_words ?? [], (text, number) =>
      makeWord(view, "sources", text, number),
    ),
  );
  const isAwaited = Boolean(!line && source.trim());
  view.output.classList.toggle("stale", isAwaited);
  // The old translation stays visible, but belongs to another line: its words cannot be chosen.
  view.output.inert = isAwaited;
  if (isAwaited) return;
  view.output.replaceChildren(
    ...(line
      ? splitAtWords(
          line.text,
          line.words.map(({ text }) => text),
          (text, number) => makeTargetWord(view, line, text, number),
        )
      : []),
  );
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
  if (!wordOf(tabStop)) setTabStop(state.views.find(({ targets }) => targets.length)?.targets[0]);
  state.hovered = null;
  markWords();
  drawCount();
}

/** @param {HTMLElement} [word] */
function setTabStop(word) {
  if (tabStop) tabStop.tabIndex = -1;
  tabStop = word ?? null;
  if (tabStop) tabStop.tabIndex = 0;
}

function drawCount() {
  const text = at("source").value;
  const length = [...text].length; // Code points, as counted by the server.
  const excess = length - state.limit;
  at("count").classList.toggle("over", excess > 0);
  if (excess > 0) at("count").textContent = strings.charactersOver(excess, state.limit);
  else if (state.limit < Infinity)
    at("count").textContent = strings.charactersOf(length, state.limit);
  else at("count").textContent = strings.characters(length);
  at("clear").disabled = !text;
  at("copy").disabled = !text.trim();
}

/** Marks the hovered word, or else the focused one, and the words aligned with it. */
function markWords() {
  for (const word of marked) word.classList.remove("pointed", "aligned");
  marked = [];
  at("about").textContent = "";
  const wordRef = wordOf(state.hovered?.word) ?? wordOf(state.focused?.word);
  if (!wordRef?.view.line || !wordRef.word.isConnected) return;
  const { side, view, index, word } = wordRef;
  const { line } = wordRef.view;
  word.classList.add("pointed");
  const otherSide = side === "sources" ? "targets" : "sources";
  const aligned = alignedIndices(line, side, index).map((partner) => view[otherSide][partner]);
  marked = [word, ...aligned.filter(Boolean)];
  for (const partner of marked.slice(1)) partner.classList.add("aligned");
  const about = describe(line, side, index);
  const link = side === "sources" ? " → " : ": ";
  const quoted = strings.quoted([word.textContent]);
  at("about").textContent = [quoted, about].filter(Boolean).join(link);
}

/**
 * Sets the hovered or focused word, or none.
 *
 * @param {"hovered" | "focused"} kind
 * @param {WordRef | null} [wordRef]
 */
export function point(kind, wordRef = null) {
  if (state[kind]?.word === wordRef?.word) return;
  state[kind] = wordRef;
  markWords();
}

/**
 * Returns the word that an element shows, or null.
 *
 * @param {EventTarget | null | undefined} node
 */
export function wordOf(node) {
  const wordRef = node instanceof Node ? wordRefs.get(node) : null;
  return wordRef?.view[wordRef.side][wordRef.index] === node ? (wordRef ?? null) : null;
}

/**
 * Returns the source word at a point of the window. It lies in the mirror, under the text area.
 *
 * @param {number} x
 * @param {number} y
 */
export function sourceWordAt(x, y) {
  const wordRef = wordOf(document.elementsFromPoint(x, y).find((node) => wordRefs.has(node)));
  return wordRef?.side === "sources" ? wordRef : null;
}

/** Returns the source word that contains the caret, or ends at it. */
export function sourceWordAtCaret() {
  const before = at("source").value.slice(0, at("source").selectionStart).split("\n");
  const caret = before[before.length - 1].length;
  let start = 0;
  for (const node of state.views[before.length - 1]?.mirror.childNodes ?? []) {
    const end = start + (node.textContent ?? "").length;
    const wordRef = wordOf(node);
    if (wordRef && start <= caret && caret <= end) return wordRef;
    start = end;
  }
  return null;
}

/**
 * Focuses a word of the translation, and puts it into the tab order.
 *
 * @param {WordRef | null} wordRef
 */
export function focusWord(wordRef) {
  if (!wordRef) return;
  setTabStop(wordRef.word);
  wordRef.word.focus();
}

/**
 * Returns the nearest word in the next row above (-1) or below (1).
 *
 * @param {HTMLElement[]} words
 * @param {HTMLElement} from
 * @param {number} step
 */
function wordInRow(words, from, step) {
  const boxOf = (/** @type {HTMLElement} */ word) => word.getClientRects()[0];
  const here = boxOf(from);
  const beyond = words.filter((word) => step * (boxOf(word).top - here.top) > here.height / 2);
  const nearest = Math.min(...beyond.map((word) => step * boxOf(word).top));
  const row = beyond.filter((word) => step * boxOf(word).top - nearest < here.height / 2);
  const distance = (/** @type {HTMLElement} */ word) => Math.abs(boxOf(word).left - here.left);
  return row.sort((one, other) => distance(one) - distance(other))[0];
}

/**
 * Returns the word that a key moves to, or null.
 *
 * @param {string} key
 * @param {WordRef} from
 */
export function wordByKey(key, { view, word }) {
  const words = state.views.flatMap(({ targets }) => targets.filter(Boolean));
  const current = words.indexOf(word);
  const stepRight = getComputedStyle(view.output).direction === "rtl" ? -1 : 1;
  /** @type {Record<string, () => HTMLElement | undefined>} */
  const moves = {
    ArrowRight: () => words[current + stepRight],
    ArrowLeft: () => words[current - stepRight],
    ArrowDown: () => wordInRow(words, word, 1),
    ArrowUp: () => wordInRow(words, word, -1),
    Home: () => words[0],
    End: () => words.at(-1),
  };
  return wordOf(moves[key]?.());
}
