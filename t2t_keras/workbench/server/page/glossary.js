// @ts-check
// The glossary editor: a table for each language pair, saved in the browser.

import { nameOf, pair } from "./languages.js";
import { around, at, download, element, memory, state, tell } from "./state.js";
import { strings } from "./strings.js";

const HEADS = ["term-head", "translation-head", "note-head"];

/** @param {string[]} row */
const isBlank = (row) => row.every((cell) => !cell.trim());

const pairName = () => Object.values(pair() ?? {}).join("-");

/** @param {HTMLTableRowElement} row */
const inputsOf = (row) => [...row.querySelectorAll("input")];

// As on the server, case matters only for terms with a capital after the first letter: US, GmbH.
/** @param {string} term */
const keyOf = (term) => (/.\p{Lu}/u.test(term) ? term : term.toLowerCase()).trim();

/** Returns the terms to use, [[source, target]]; only the first of duplicates. */
export function glossary() {
  const terms = new Map();
  for (const row of state.terms) {
    const [source, target] = row.map((cell) => cell.trim());
    if (source && target && !terms.has(keyOf(source))) terms.set(keyOf(source), [source, target]);
  }
  return [...terms.values()];
}

/** Draws the terms of the current languages. */
export function drawTerms() {
  const languages = pair();
  state.terms = languages ? memory.get(`glossary ${pairName()}`, []) : [];
  at("terms").replaceChildren(
    ...state.terms.map((row) => makeRow(row)),
    ...(languages ? [makeRow()] : []),
  );
  at("import").disabled = !languages;
  at("imported").textContent = "";
  showReport();
}

function makeRow(row = ["", "", ""]) {
  const languages = pair();
  const inputs = HEADS.map((head, index) =>
    element("input", {
      value: row[index] ?? "",
      placeholder: at(head).textContent,
      ariaLabel: at(head).textContent,
      lang: [languages?.source, languages?.target][index] ?? "",
      dir: "auto",
    }),
  );
  const remove = element("button", {
    type: "button",
    className: "icon",
    textContent: "×",
    ariaLabel: strings.removeTerm,
  });
  const cells = [...inputs, remove].map((cell) => element("td", {}, cell));
  return element("tr", {}, ...cells);
}

/** After an edit: saves the terms, and keeps a blank row at the end. */
function updateTerms() {
  const rows = [...at("terms").rows];
  const values = rows.map((row) => inputsOf(row).map(({ value }) => value));
  if (!isBlank(values.at(-1) ?? ["a blank row is missing"])) at("terms").append(makeRow());
  saveTerms(values.filter((row) => !isBlank(row)));
}

/** @param {string[][]} terms */
function saveTerms(terms) {
  const oldGlossary = JSON.stringify(glossary());
  state.terms = terms;
  const isSaved = memory.set(`glossary ${pairName()}`, terms.length ? terms : null);
  if (!isSaved) at("imported").textContent = strings.cannotSave;
  showReport();
  if (JSON.stringify(glossary()) !== oldGlossary) tell("terms");
}

/** @param {HTMLTableRowElement} row */
function removeRow(row) {
  const { rowIndex } = row;
  row.remove();
  updateTerms();
  // The head is row 0. The next row, which takes this one's place, gets the focus.
  const { rows } = at("terms");
  inputsOf(rows[Math.min(rowIndex - 1, rows.length - 1)])[0].focus();
}

export function listenToTerms() {
  at("terms").addEventListener("input", updateTerms);
  at("terms").addEventListener("click", (event) => {
    const row = around(event, "button")?.closest("tr");
    if (row) removeRow(row);
  });
}

/** Shows the number of terms, and why some rows are not used. */
function showReport() {
  const languages = pair();
  const terms = glossary();
  const used = new Set();
  const incompleteTerms = /** @type {string[]} */ ([]);
  const duplicateTerms = /** @type {string[]} */ ([]);
  for (const row of at("terms").rows) {
    const [source, target] = inputsOf(row);
    const [term, translation] = [source.value.trim(), target.value.trim()];
    const isDuplicate = term && translation && used.has(keyOf(term));
    if (isDuplicate) duplicateTerms.push(term);
    if (Boolean(term) !== Boolean(translation)) incompleteTerms.push(term || translation);
    if (term && translation) used.add(keyOf(term));
    source.ariaInvalid = String(Boolean(isDuplicate || (!term && translation)));
    target.ariaInvalid = String(Boolean(term && !translation));
  }
  at("glossary-count").textContent = languages ? strings.terms(terms.length) : "";
  at("export").disabled = !state.terms.length;
  const notes = [
    languages
      ? strings.savedHere(nameOf(languages.source), nameOf(languages.target))
      : strings.termsLater,
    incompleteTerms.length ? strings.halfTerms(strings.quoted(incompleteTerms)) : "",
    duplicateTerms.length ? strings.duplicates(strings.quoted(duplicateTerms)) : "",
  ];
  at("glossary-note").textContent = notes.filter(Boolean).join(" ");
}

/**
 * Adds the terms of a TSV file; replaces existing terms with the same source.
 *
 * @param {File} file
 */
export async function importTerms(file) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    at("imported").textContent = strings.notUtf8(strings.quoted([file.name]));
    return;
  }
  const lines = text.split(/\r?\n/).map((line) => line.split("\t"));
  const rows = lines.filter((line) => !isBlank(line));
  const validRows = rows.filter(([source, target]) => source.trim() && target?.trim());
  const invalidLines = lines.flatMap((line, index) =>
    !isBlank(line) && !validRows.includes(line) ? index + 1 : [],
  );
  const imported = validRows.map(([source, target, note = ""]) => [source, target, note]);
  const replacements = new Map(imported.toReversed().map((row) => [keyOf(row[0]), row]));
  const updatedTerms = state.terms.map((row) => {
    const key = keyOf(row[0]);
    const replacement = replacements.get(key) ?? row;
    replacements.delete(key);
    return replacement;
  });
  const placedRows = new Set(updatedTerms);
  saveTerms([...updatedTerms, ...imported.filter((row) => !placedRows.has(row))]);
  drawTerms();
  const { length } = invalidLines;
  const leftOut = strings.leftOut(length, invalidLines.slice(0, 5).join(", "), length > 5);
  const messages = [strings.imported(validRows.length), ...(length ? [leftOut] : [])];
  at("imported").textContent = messages.join(" ");
}

export function exportTerms() {
  const clean = (/** @type {string} */ cell) =>
    cell.trim().replace(/[ \t-\r\x1c-\x1f\x85\u2028\u2029]+/g, " ");
  const lines = state.terms.map((row) => row.map(clean).join("\t").trimEnd());
  download(`${pairName()}.tsv`, lines.map((line) => `${line}\n`).join(""));
}
