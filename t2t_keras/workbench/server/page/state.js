// The state of the page, its storage in the browser, and helpers for elements.

export const state = {
  languages: [], // As GET /languages gives them: {code, name, targets}.
  detected: null, // The detected language of the text.
  limit: Infinity, // Characters of a text.
  formats: null, // Suffixes of the files that the server translates; null = not known.
  terms: [], // Rows of the glossary of these languages: [term, translation, note].
  known: new Map(), // {best, shown} by the line that they translate, for these languages and terms.
  views: [], // What is drawn, one a line: {source, line, mirror, output, sources, targets}.
  hovered: null, // A word: {side: "sources" or "targets", view, index}.
  focused: null,
  menu: null, // The open menu of alternatives: {view, index, word, close}.
};

export const at = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

export const counted = (count, thing) =>
  `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;

export const quoted = (words) => words.map((word) => `“${word}”`).join(" ");

/** Dispatches the event "languages" or "terms" after a change. */
export const tell = (change) => document.dispatchEvent(new Event(change));

const SPACE = "t2t-keras ";

/** The browser's storage. If it is blocked or full, the page works without it. */
export const memory = {
  get(name, otherwise = null) {
    try {
      return JSON.parse(localStorage.getItem(SPACE + name)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(SPACE + name);
      else localStorage.setItem(SPACE + name, JSON.stringify(value));
      return true;
    } catch {
      return false;
    }
  },
};

/** Downloads a text as a file. */
export function download(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}
