// @ts-check
// The state of the page, its storage in the browser, and helpers for elements.

/**
 * The server's answers; see docs/serving.md.
 *
 * @typedef {{code: string, name: string, targets: string[]}} Language
 * @typedef {{text: string, confidence?: number | null}} Word
 * @typedef {{text: string, source_words: string[], words: Word[],
 *   alignment: number[][], alternatives: string[]}} Line
 * @typedef {{word: string, text: string, words?: Word[], alignment?: number[][]}} Alternative
 */

/**
 * A drawn line, with the elements of its words.
 *
 * @typedef {{source: string | null, line: Line | undefined, mirror: HTMLElement,
 *   output: HTMLElement, sources: HTMLElement[], targets: HTMLElement[]}} View
 */

/**
 * A word of a line, and its element.
 *
 * @typedef {"sources" | "targets"} Side
 * @typedef {{side: Side, view: View, index: number, word: HTMLElement}} WordRef
 */

/** @typedef {{source: string, target: string}} Pair */

export const state = {
  languages: /** @type {Language[]} */ ([]),
  detected: /** @type {string | null} */ (null), // The detected language of the text.
  limit: Infinity, // Maximum characters of a text.
  // Suffixes of the files that the server translates; null = unknown.
  formats: /** @type {string[] | null} */ (null),
  // Rows of the glossary of these languages: [term, translation, note].
  terms: /** @type {string[][]} */ ([]),
  // Translations by source line, for these languages and terms.
  known: /** @type {Map<string, {best: Line, shown: Line}>} */ (new Map()),
  views: /** @type {View[]} */ ([]), // One for each line of the text.
  hovered: /** @type {WordRef | null} */ (null),
  focused: /** @type {WordRef | null} */ (null),
  // The word with the open menu of alternatives.
  menu: /** @type {WordRef & {close: () => void} | null} */ (null),
};

/**
 * @typedef {{
 *   source: HTMLTextAreaElement, terms: HTMLTableSectionElement,
 *   "source-language": HTMLSelectElement, "target-language": HTMLSelectElement,
 *   key: HTMLInputElement, shading: HTMLInputElement, file: HTMLInputElement,
 *   "import-file": HTMLInputElement, swap: HTMLButtonElement, clear: HTMLButtonElement,
 *   copy: HTMLButtonElement, import: HTMLButtonElement, export: HTMLButtonElement,
 * }} Controls
 */

/**
 * Returns the element with this ID.
 *
 * @template {string} Id
 * @param {Id} id
 * @returns {Id extends keyof Controls ? Controls[Id] : HTMLElement}
 */
export const at = (id) => /** @type {any} */ (document.getElementById(id));

/**
 * Returns the nearest element around an event's target that matches, or null.
 *
 * @param {Event} event
 * @param {string} selector
 * @returns {HTMLElement | null}
 */
export const around = ({ target }, selector) =>
  target instanceof Element ? target.closest(selector) : null;

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Partial<HTMLElementTagNameMap[Tag]>} properties
 * @param {...(Node | string)} children
 */
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  Object.assign(node, properties);
  node.append(...children);
  return node;
}

/**
 * Dispatches an event after a change.
 *
 * @param {"languages" | "terms"} change
 */
export const tell = (change) => document.dispatchEvent(new Event(change));

const NAME_PREFIX = "t2t-keras ";

/** The browser's storage. If it is blocked or full, the page works without it. */
export const memory = {
  /**
   * @param {string} name
   * @param {any} fallback
   */
  get(name, fallback = null) {
    try {
      return JSON.parse(localStorage.getItem(NAME_PREFIX + name) ?? "null") ?? fallback;
    } catch {
      return fallback;
    }
  },

  /**
   * Saves a value, or removes it if it is null; returns whether that worked.
   *
   * @param {string} name
   * @param {any} value
   */
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(NAME_PREFIX + name);
      else localStorage.setItem(NAME_PREFIX + name, JSON.stringify(value));
      return true;
    } catch {
      return false;
    }
  },
};

/**
 * Downloads a text as a file.
 *
 * @param {string} name
 * @param {string} text
 */
export function download(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}
