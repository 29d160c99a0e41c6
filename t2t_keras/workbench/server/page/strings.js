// @ts-check
// The texts of scripts in English and German, and the German texts of index.html, which is in
// English. The browser's preferred languages decide.

/** @type {(value: number) => string} */
const format = (value) => value.toLocaleString(language);

/** @type {(count: number, one: string, many: string) => string} */
const withNoun = (count, one, many) => `${format(count)} ${count === 1 ? one : many}`;

/** @type {(words: string[], open: string, close: string) => string} */
const quoteAll = (words, open, close) => words.map((word) => open + word + close).join(" ");

const english = {
  // Languages.
  detectLanguage: "Detect language",
  detected: (/** @type {string} */ name) => `${name} (detected)`,
  notRecognised: "The language of the text was not recognised. Choose it.",
  notTranslated: (/** @type {string} */ source, /** @type {string} */ target) =>
    `The text seems to be ${source}, which this server does not translate into ${target}. ` +
    "Choose other languages.",

  // The text and its words.
  quoted: (/** @type {string[]} */ words) => quoteAll(words, "“", "”"),
  characters: (/** @type {number} */ count) => withNoun(count, "character", "characters"),
  charactersOf: (/** @type {number} */ count, /** @type {number} */ limit) =>
    `${format(count)} / ${withNoun(limit, "character", "characters")}`,
  charactersOver: (/** @type {number} */ count, /** @type {number} */ limit) =>
    `${withNoun(count, "character", "characters")} over the limit of ${format(limit)}`,
  sure: (/** @type {number} */ percent) => `${percent} % sure`,
  from: (/** @type {string} */ words) => `from ${words}`,
  copy: "Copy",
  copied: "Copied",
  notCopied: "Not copied",

  // The menu of alternatives.
  lookingForAlternatives: "Looking for alternatives …",
  insteadOf: (/** @type {string} */ word) => `Instead of ${word}`,
  wholeLine: "The whole line",
  noAlternatives: "No alternatives.",

  // The glossary.
  removeTerm: "Remove the term",
  terms: (/** @type {number} */ count) => withNoun(count, "term", "terms"),
  savedHere: (/** @type {string} */ source, /** @type {string} */ target) =>
    `From ${source} into ${target}, saved in this browser.`,
  termsLater: "Once the language of the text is known, its terms are shown here.",
  halfTerms: (/** @type {string} */ words) => `Not used, as one side is empty: ${words}.`,
  duplicates: (/** @type {string} */ words) => `Duplicates (only the first is used): ${words}.`,
  cannotSave: "Cannot save in this browser. Export the glossary to keep it.",
  notUtf8: (/** @type {string} */ file) => `${file} is not UTF-8 text: nothing was imported.`,
  imported: (/** @type {number} */ count) => `${withNoun(count, "term", "terms")} imported.`,
  leftOut: (
    /** @type {number} */ count,
    /** @type {string} */ lines,
    /** @type {boolean} */ more,
  ) =>
    `${withNoun(count, "line", "lines")} left out, as they lack a term or its translation: ` +
    `${lines}${more ? " and more" : ""}.`,

  // Files.
  formats: (/** @type {string} */ suffixes) => `Formats: ${suffixes}`,
  waiting: "Waiting …",
  translating: "Translating …",
  download: "Download",
  removeFile: (/** @type {string} */ name) => `Remove ${name}`,
  noLanguages: "The server offers no languages yet.",
  wrongFormat: (/** @type {string} */ suffixes) =>
    `Files of this format are not translated here: expected ${suffixes}.`,
  emptyFile: "The file is empty.",

  // Requests that failed. The server's own reasons are in English.
  tooManyRequests: "Too many requests.",
  waitSeconds: (/** @type {number} */ count) => `Wait ${withNoun(count, "second", "seconds")}.`,
  waitMoment: "Wait a moment.",
  keyRequired: "The server requires an API key.",
  enterKey: "Enter the key above.",
  refused: (/** @type {number} */ status) => `The server refused the request (${status}).`,
  failed: (/** @type {number} */ status) => `The server failed (${status})`,
  noAnswer: (/** @type {number} */ seconds) =>
    `The server did not answer within ${withNoun(seconds, "second", "seconds")}.`,
  noJson: "The server's answer is not a translation (not JSON).",
  unreachable: "The server cannot be reached.",
  textStays: "Your text stays here.",
  wrongCount: (/** @type {number} */ count, /** @type {number} */ expected) =>
    `The server answered ${count} of ${expected} lines.`,
  pageFailed: (/** @type {string} */ reason) => `This page failed: ${reason}`,
};

/** @type {typeof english} */
const german = {
  detectLanguage: "Sprache erkennen",
  detected: (name) => `${name} (erkannt)`,
  notRecognised: "Die Sprache des Textes wurde nicht erkannt. Bitte auswählen.",
  notTranslated: (source, target) =>
    `Der Text ist vermutlich ${source}. Von dort übersetzt dieser Server nicht in die ` +
    `Zielsprache ${target}. Bitte andere Sprachen wählen.`,

  quoted: (words) => quoteAll(words, "„", "“"),
  characters: (count) => withNoun(count, "Zeichen", "Zeichen"),
  charactersOf: (count, limit) => `${format(count)} / ${format(limit)} Zeichen`,
  charactersOver: (count, limit) => `${format(count)} Zeichen über der Grenze von ${format(limit)}`,
  sure: (percent) => `zu ${percent} % sicher`,
  from: (words) => `aus ${words}`,
  copy: "Kopieren",
  copied: "Kopiert",
  notCopied: "Nicht kopiert",

  lookingForAlternatives: "Alternativen werden gesucht …",
  insteadOf: (word) => `Statt ${word}`,
  wholeLine: "Die ganze Zeile",
  noAlternatives: "Keine Alternativen.",

  removeTerm: "Begriff entfernen",
  terms: (count) => withNoun(count, "Begriff", "Begriffe"),
  savedHere: (source, target) =>
    `Ausgangssprache ${source}, Zielsprache ${target}; in diesem Browser gespeichert.`,
  termsLater: "Sobald die Sprache des Textes bekannt ist, stehen hier ihre Begriffe.",
  halfTerms: (words) => `Nicht verwendet, weil eine Seite leer ist: ${words}.`,
  duplicates: (words) => `Doppelt (nur der erste Eintrag gilt): ${words}.`,
  cannotSave: "Dieser Browser kann das Glossar nicht speichern. Zum Aufheben exportieren.",
  notUtf8: (file) => `${file} ist kein UTF-8-Text: Nichts wurde importiert.`,
  imported: (count) => `${withNoun(count, "Begriff", "Begriffe")} importiert.`,
  leftOut: (count, lines, more) =>
    `${withNoun(count, "Zeile", "Zeilen")} ohne Begriff und Übersetzung ausgelassen: ` +
    `${lines}${more ? " und weitere" : ""}.`,

  formats: (suffixes) => `Formate: ${suffixes}`,
  waiting: "Wartet …",
  translating: "Wird übersetzt …",
  download: "Herunterladen:",
  removeFile: (name) => `${name} entfernen`,
  noLanguages: "Der Server bietet noch keine Sprachen an.",
  wrongFormat: (suffixes) =>
    `Dateien dieses Formats werden hier nicht übersetzt. Möglich sind ${suffixes}.`,
  emptyFile: "Die Datei ist leer.",

  tooManyRequests: "Zu viele Anfragen.",
  waitSeconds: (count) => `Bitte ${withNoun(count, "Sekunde", "Sekunden")} warten.`,
  waitMoment: "Bitte einen Moment warten.",
  keyRequired: "Der Server verlangt einen API-Schlüssel.",
  enterKey: "Bitte den Schlüssel oben eingeben.",
  refused: (status) => `Der Server hat die Anfrage abgelehnt (${status}).`,
  failed: (status) => `Fehler des Servers (${status})`,
  noAnswer: (seconds) =>
    `Der Server hat nicht innerhalb von ${withNoun(seconds, "Sekunde", "Sekunden")} geantwortet.`,
  noJson: "Die Antwort des Servers ist keine Übersetzung (kein JSON).",
  unreachable: "Der Server ist nicht erreichbar.",
  textStays: "Der Text bleibt hier erhalten.",
  wrongCount: (count, expected) => `Der Server hat ${count} von ${expected} Zeilen beantwortet.`,
  pageFailed: (reason) => `Fehler dieser Seite: ${reason}`,
};

/**
 * German for the texts of index.html.
 *
 * @type {Record<string, string>}
 */
const germanPage = {
  Translate: "Übersetzen",
  "API key": "API-Schlüssel",
  "Dark theme": "Dunkles Design",
  "Light or dark": "Hell oder dunkel",
  "Try again": "Erneut versuchen",
  "Translate from": "Ausgangssprache",
  "Translate into": "Zielsprache",
  "Swap the languages": "Sprachen tauschen",
  "Text to translate": "Zu übersetzender Text",
  "Type or paste text": "Text eingeben oder einfügen",
  Clear: "Löschen",
  Translation: "Übersetzung",
  "Words of the translation: Enter shows alternatives":
    "Wörter der Übersetzung: Eingabetaste zeigt Alternativen",
  Copy: "Kopieren",
  "Shade words by confidence": "Unsichere Wörter färben",
  "under 90\u00a0%": "unter 90\u00a0%",
  "under 70\u00a0%": "unter 70\u00a0%",
  "under 40\u00a0%": "unter 40\u00a0%",
  "Choose a word to see alternatives.": "Ein Wort anklicken, um Alternativen zu sehen.",
  Glossary: "Glossar",
  Term: "Begriff",
  Note: "Notiz",
  Remove: "Entfernen",
  "Import TSV": "TSV importieren",
  "Export TSV": "TSV exportieren",
  "Glossary to import": "Zu importierendes Glossar",
  Files: "Dateien",
  "Choose files": "Dateien auswählen",
  "Files to translate": "Zu übersetzende Dateien",
  "or drop them anywhere on this page.": "oder irgendwo auf dieser Seite ablegen.",
  "Text and files go to this server, and nowhere else.":
    "Texte und Dateien gehen nur an diesen Server.",
  Alternatives: "Alternativen",
  "Drop files to translate them": "Dateien hier ablegen, um sie zu übersetzen",
};

/** The language of the page: the browser's first preferred language that has a table. */
export const language =
  navigator.languages
    .map((code) => code.split("-")[0])
    .find((code) => code === "en" || code === "de") ?? "en";

export const strings = language === "de" ? german : english;

/**
 * Returns a language's name: the server's on an English page, else the browser's if it has one.
 *
 * @param {string} code
 * @param {string} serverName
 */
export function languageName(code, serverName) {
  if (language === "en") return serverName;
  try {
    const names = new Intl.DisplayNames([language], { type: "language", fallback: "none" });
    return names.of(code) ?? serverName;
  } catch {
    return serverName; // The server may use codes that are not of BCP 47.
  }
}

const SHOWN_ATTRIBUTES = ["aria-label", "title", "placeholder", "data-empty"];

/** Translates the texts of index.html, which are in English. */
export function translatePage() {
  document.documentElement.lang = language;
  if (language === "en") return;
  for (const node of document.querySelectorAll("*")) {
    for (const attribute of SHOWN_ATTRIBUTES) {
      const text = germanPage[node.getAttribute(attribute) ?? ""];
      if (text) node.setAttribute(attribute, text);
    }
    const text = node.childElementCount ? "" : germanPage[node.textContent ?? ""];
    if (text) node.textContent = text;
  }
}
