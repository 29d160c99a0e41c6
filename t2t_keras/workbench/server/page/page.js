// The page starts here: text is translated while it is typed; words, terms and files go along.
// There is no framework, and nothing is fetched but from the server that the page came from.

import { moveInMenu, openMenu, placeMenu } from "./alternatives.js";
import { drawFormats, listenToDrops, translateFiles } from "./files.js";
import { drawTerms, exportTerms, importTerms, readTerms, removeRow } from "./glossary.js";
import { chooseLanguages, drawLanguages, swap } from "./languages.js";
import { ask, showTrouble } from "./server.js";
import { at, element, memory, state } from "./state.js";
import { forget, schedule, translate, unknownLines } from "./translation.js";
import {
  draw,
  focusWord,
  point,
  sourceWordAt,
  sourceWordAtCaret,
  targetWordOf,
  translation,
  wordByKey,
} from "./words.js";

const PAUSE = { typing: 250, terms: 600 }; // Milliseconds without a key before a request.

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () =>
  (document.documentElement.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";

/** The system's theme, until the reader chooses the other one. */
function chooseTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  at("theme").setAttribute("aria-pressed", String(isDark()));
}

function switchTheme() {
  const isSystem = isDark() === !prefersDark.matches;
  const theme = isDark() ? "light" : "dark";
  memory.set("theme", isSystem ? null : theme);
  chooseTheme(isSystem ? null : theme);
}

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
  at("copy").textContent = isCopied ? "Copied" : "Not copied";
  setTimeout(() => (at("copy").textContent = "Copy"), 1500);
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
    // By a command, which can be undone.
    text.focus();
    text.select();
    document.execCommand("delete");
  });
}

function listenToWords() {
  const words = at("target");
  words.addEventListener("pointerover", ({ target, pointerType }) => {
    if (pointerType === "mouse") point("hovered", targetWordOf(target));
  });
  words.addEventListener("pointerleave", () => point("hovered"));
  words.addEventListener("focusin", ({ target }) => point("focused", targetWordOf(target)));
  words.addEventListener("focusout", () => state.menu || point("focused"));
  words.addEventListener("click", ({ target }) => {
    const wordRef = targetWordOf(target);
    // Selecting text does not open the menu.
    if (wordRef && getSelection().isCollapsed) openMenu(wordRef);
  });
  words.addEventListener("keydown", (event) => {
    const wordRef = targetWordOf(event.target);
    if (!wordRef || event.ctrlKey || event.altKey || event.metaKey) return;
    const next = wordByKey(event.key, wordRef);
    if (event.key === "Enter" || event.key === " ") openMenu(wordRef);
    else if (next) focusWord(next);
    else return;
    event.preventDefault();
  });
}

function listenToMenu() {
  at("menu").addEventListener("keydown", moveInMenu);
  document.addEventListener("pointerdown", ({ target }) => {
    if (state.menu && !target.closest("#menu")) {
      state.menu.close();
      point("focused");
    }
  });
  window.addEventListener("resize", () => state.menu && placeMenu());
}

function listenToTerms() {
  at("terms").addEventListener("input", readTerms);
  at("terms").addEventListener("click", ({ target }) => {
    if (target.closest("button")) removeRow(target.closest("tr"));
  });
  at("export").addEventListener("click", exportTerms);
  takeFiles("import", "import-file", ([file]) => importTerms(file));
}

/** Connects a button to a file input. */
function takeFiles(button, input, take) {
  at(button).addEventListener("click", () => at(input).click());
  at(input).addEventListener("change", () => {
    take([...at(input).files]);
    at(input).value = ""; // The same file can be chosen again.
  });
}

function listen() {
  for (const id of ["source-language", "target-language"])
    at(id).addEventListener("change", chooseLanguages);
  // An incomplete translation would lose the rest of the text.
  at("swap").addEventListener("click", () => swap(unknownLines().length ? "" : translation()));
  document.addEventListener("languages", () => {
    drawTerms();
    forget(0);
  });
  document.addEventListener("terms", () => forget(PAUSE.terms));
  at("key-form").addEventListener("submit", (event) => event.preventDefault());
  at("key").addEventListener("change", () => (state.languages.length ? translate() : askServer()));
  at("shading").addEventListener("change", ({ target }) => shade(target.checked));
  at("theme").addEventListener("click", switchTheme);
  prefersDark.addEventListener("change", () => chooseTheme(memory.get("theme")));
  at("copy").addEventListener("click", copy);
  takeFiles("choose", "file", translateFiles);
  listenToText();
  listenToWords();
  listenToMenu();
  listenToTerms();
  listenToDrops();
}

/** Requests languages and settings; meanwhile, text can already be typed. */
async function askServer() {
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
    showTrouble(error, askServer);
  }
}

chooseTheme(memory.get("theme")); // Before anything is painted.
shade(memory.get("shading", true));
listen();
draw();
askServer();
