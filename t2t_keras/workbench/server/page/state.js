// What the page knows, what the browser remembers of it, and the making of elements.

export const state = {
  languages: [], // As GET /languages gives them: {code, name, targets}.
  detected: null, // The language that was found in the text.
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
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export const counted = (count, thing) =>
  `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;

export const quoted = (words) => words.map((word) => `“${word}”`).join(" ");

/** Tells the parts of the page that "languages" or "terms" have changed. */
export const tell = (change) => document.dispatchEvent(new Event(change));

const SPACE = "t2t-keras ";

/** What this browser remembers. Where it remembers nothing (blocked, full), the page works too. */
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

/** Gives the reader a file. */
export function download(name, text) {
  const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}
