// @ts-check
// The page starts here: its elements are connected to their handlers. Text is translated while it
// is typed. There is no framework, and everything comes from the page's own server.

import { listenToMenu, openMenu } from "./alternatives.js";
import { drawFormats, listenToFiles, translateFiles } from "./files.js";
import { drawTerms, exportTerms, importTerms, listenToTerms } from "./glossary.js";
import { chooseLanguages, drawLanguages, swap } from "./languages.js";
import { ask, listenToTrouble, showTrouble } from "./server.js";
import { at, element, memory, state } from "./state.js";
import { strings, translatePage } from "./strings.js";
import { forget, schedule, translate, unknownLines } from "./translation.js";
import {
  draw,
  focusWord,
  point,
  sourceWordAt,
  sourceWordAtCaret,
  translation,
  wordByKey,
  wordOf,
} from "./words.js";

const PAUSE = { typing: 250, terms: 600 }; // Milliseconds without typing before a request.

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () =>
  (document.documentElement.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";

/**
 * Sets a theme; null = the system's.
 *
 * @param {"light" | "dark" | null} theme
 */
function chooseTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  at("theme").ariaPressed = String(isDark());
}

function switchTheme() {
  const isSystem = isDark() === !prefersDark.matches;
  const theme = isDark() ? "light" : "dark";
  memory.set("theme", isSystem ? null : theme);
  chooseTheme(isSystem ? null : theme);
}

/** @param {boolean} isShaded */
function shade(isShaded) {
  at("shading").checked = isShaded;
  at("scale").hidden = !isShaded;
  at("target").classList.toggle("shaded", isShaded);
  memory.set("shading", isShaded);
}

/** Copies the translation; without TLS, browsers only support the old method. */
async function copy() {
  if (unknownLines().length) await translate();
  const text = translation();
  let isCopied = !unknownLines().length;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { value: text, className: "unseen" });
    document.body.append(area);
    area.select();
    isCopied &&= document.execCommand("copy");
    area.remove();
    at("copy").focus();
  }
  at("copy").textContent = isCopied ? strings.copied : strings.notCopied;
  setTimeout(() => {
    at("copy").textContent = strings.copy;
  }, 1500);
}

function listenToText() {
  const text = at("source");
  text.addEventListener("input", () => {
    point("focused");
    schedule(PAUSE.typing);
  });
  text.addEventListener("pointermove", ({ clientX, clientY, pointerType }) => {
    if (pointerType === "mouse") point("hovered", sourceWordAt(clientX, clientY));
  });
  text.addEventListener("pointerleave", () => point("hovered"));
  text.addEventListener("click", () => point("focused", sourceWordAtCaret()));
  text.addEventListener("blur", () => point("focused"));
  text.addEventListener("keyup", ({ key }) => {
    if (/^(Arrow|Home|End|Page)/.test(key)) point("focused", sourceWordAtCaret());
  });
  at("clear").addEventListener("click", () => {
    // Unlike setting the value, this command can be undone.
    text.focus();
    text.select();
    document.execCommand("delete");
  });
}

function listenToWords() {
  const words = at("target");
  words.addEventListener("pointerover", ({ target, pointerType }) => {
    if (pointerType === "mouse") point("hovered", wordOf(target));
  });
  words.addEventListener("pointerleave", () => point("hovered"));
  words.addEventListener("focusin", ({ target }) => point("focused", wordOf(target)));
  words.addEventListener("focusout", () => state.menu || point("focused"));
  words.addEventListener("click", ({ target }) => {
    const wordRef = wordOf(target);
    // Selecting text does not open the menu.
    if (wordRef && getSelection()?.isCollapsed) openMenu(wordRef);
  });
  words.addEventListener("keydown", (event) => {
    const wordRef = wordOf(event.target);
    if (!wordRef || event.ctrlKey || event.altKey || event.metaKey) return;
    const next = wordByKey(event.key, wordRef);
    if (event.key === "Enter" || event.key === " ") openMenu(wordRef);
    else if (next) focusWord(next);
    else return;
    event.preventDefault();
  });
}

/**
 * Connects a button to a file input.
 *
 * @param {"choose" | "import"} button
 * @param {"file" | "import-file"} input
 * @param {(files: File[]) => void} useFiles
 */
function connectFileInput(button, input, useFiles) {
  at(button).addEventListener("click", () => at(input).click());
  at(input).addEventListener("change", () => {
    useFiles([...(at(input).files ?? [])]);
    at(input).value = ""; // The same file can be chosen again.
  });
}

function listen() {
  at("source-language").addEventListener("change", chooseLanguages);
  at("target-language").addEventListener("change", chooseLanguages);
  // An incomplete translation would lose the rest of the text.
  at("swap").addEventListener("click", () => swap(unknownLines().length ? "" : translation()));
  document.addEventListener("languages", () => {
    drawTerms();
    forget(0);
  });
  document.addEventListener("terms", () => forget(PAUSE.terms));
  at("key-form").addEventListener("submit", (event) => event.preventDefault());
  at("key").addEventListener("change", () => (state.languages.length ? translate() : connect()));
  at("shading").addEventListener("change", () => shade(at("shading").checked));
  at("theme").addEventListener("click", switchTheme);
  prefersDark.addEventListener("change", () => chooseTheme(memory.get("theme")));
  at("copy").addEventListener("click", copy);
  at("export").addEventListener("click", exportTerms);
  connectFileInput("import", "import-file", ([file]) => importTerms(file));
  connectFileInput("choose", "file", translateFiles);
  listenToText();
  listenToWords();
  listenToMenu();
  listenToTerms();
  listenToFiles();
  listenToTrouble();
}

/** Requests languages and settings; text can be typed meanwhile. */
async function connect() {
  try {
    const [languages, settings] = await Promise.all([ask("languages"), ask("frontend/settings")]);
    state.languages = languages;
    if (settings.charLimit > 0) state.limit = settings.charLimit;
    if (settings.filesTranslation) state.formats = settings.supportedFilesFormat;
    if (settings.keyRequired) at("key-form").hidden = false;
    at("files-section").hidden = !settings.filesTranslation;
    drawFormats();
    drawLanguages();
  } catch (error) {
    showTrouble(error, connect);
  }
}

translatePage();
chooseTheme(memory.get("theme")); // Before anything is painted.
shade(memory.get("shading", true));
listen();
draw();
connect();
