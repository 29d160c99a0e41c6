// The glossary editor: a table for each language pair, saved in the browser.

import { nameOf, pair } from "./languages.js";
import { at, counted, download, element, memory, quoted, state, tell } from "./state.js";

const FIELDS = ["Term", "Translation", "Note"];
const isBlank = (row) => row.every((cell) => !cell.trim());
const nameOfPair = () => Object.values(pair()).join("-");

// As on the server, case matters only for terms with a capital after the first letter: US, GmbH.
const keyOf = (term) => (/.\p{Lu}/u.test(term) ? term : term.toLowerCase()).trim();

/** Returns the terms to use, [[source, target]]; of duplicates, the first. */
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
  state.terms = languages ? memory.get(`glossary ${nameOfPair()}`, []) : [];
  at("terms").replaceChildren(...state.terms.map(makeRow), ...(languages ? [makeRow()] : []));
  at("import").disabled = !languages;
  at("imported").textContent = "";
  report();
}

function makeRow(row = ["", "", ""]) {
  const inputs = FIELDS.map((field, index) => {
    const input = element("input", { value: row[index] ?? "", placeholder: field });
    input.setAttribute("aria-label", field);
    input.lang = [pair().source, pair().target, ""][index];
    input.dir = "auto";
    return input;
  });
  const remove = element("button", { type: "button", className: "icon", textContent: "×" });
  remove.setAttribute("aria-label", "Remove the term");
  const cells = [...inputs, remove].map((cell) => element("td", {}, cell));
  return element("tr", {}, ...cells);
}

/** After an edit: saves the terms, and keeps a blank row at the end. */
export function readTerms() {
  const rows = [...at("terms").rows];
  const values = rows.map((row) => [...row.querySelectorAll("input")].map(({ value }) => value));
  if (!rows.length || !isBlank(values.at(-1))) at("terms").append(makeRow());
  keep(values.filter((row) => !isBlank(row)));
}

function keep(terms) {
  const before = JSON.stringify(glossary());
  state.terms = terms;
  const isKept = memory.set(`glossary ${nameOfPair()}`, terms.length ? terms : null);
  if (!isKept)
    at("imported").textContent = "Cannot save in this browser. Export the glossary to keep it.";
  report();
  if (JSON.stringify(glossary()) !== before) tell("terms");
}

export function removeRow(row) {
  const next = row.nextElementSibling ?? row.previousElementSibling;
  row.remove();
  readTerms();
  (next?.isConnected ? next : at("terms").lastElementChild).querySelector("input").focus();
}

/** Shows the number of terms, and which rows are not used and why. */
function report() {
  const languages = pair();
  const terms = glossary();
  const used = new Set();
  const [halves, doubles] = [[], []];
  for (const row of at("terms").rows) {
    const [source, target] = [...row.querySelectorAll("input")];
    const [term, translation] = [source.value.trim(), target.value.trim()];
    const isDouble = term && translation && used.has(keyOf(term));
    if (isDouble) doubles.push(term);
    if (Boolean(term) !== Boolean(translation)) halves.push(term || translation);
    if (term && translation) used.add(keyOf(term));
    source.setAttribute("aria-invalid", String(Boolean(isDouble || (!term && translation))));
    target.setAttribute("aria-invalid", String(Boolean(term && !translation)));
  }
  at("glossary-count").textContent = languages ? counted(terms.length, "term") : "";
  at("export").disabled = !state.terms.length;
  const notes = [
    languages
      ? `From ${nameOf(languages.source)} into ${nameOf(languages.target)}, kept in this browser.`
      : "Once the language of the text is known, its terms are shown here.",
    halves.length ? `Not used, as one side is empty: ${quoted(halves)}.` : "",
    doubles.length ? `Duplicates (only the first is used): ${quoted(doubles)}.` : "",
  ];
  at("glossary-note").textContent = notes.filter(Boolean).join(" ");
}

/** Adds the terms of a TSV file; replaces existing ones. */
export async function importTerms(file) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    at("imported").textContent = `${quoted([file.name])} is not UTF-8 text: nothing was imported.`;
    return;
  }
  const lines = text.split(/\r?\n/).map((line) => line.split("\t"));
  const rows = lines.filter((line) => !isBlank(line));
  const good = rows.filter(([source, target]) => source.trim() && target?.trim());
  const bad = lines.flatMap((line, index) =>
    !isBlank(line) && !good.includes(line) ? index + 1 : [],
  );
  const imported = good.map(([source, target, note = ""]) => [source, target, note]);
  const unplaced = new Map(imported.toReversed().map((row) => [keyOf(row[0]), row]));
  const placed = state.terms.map((row) => {
    const key = keyOf(row[0]);
    const replacement = unplaced.get(key) ?? row;
    unplaced.delete(key);
    return replacement;
  });
  const isPlaced = new Set(placed);
  keep([...placed, ...imported.filter((row) => !isPlaced.has(row))]);
  drawTerms();
  const without = `without a term and its translation: ${bad.slice(0, 5).join(", ")}`;
  const more = bad.length > 5 ? " and more" : "";
  const left = bad.length ? ` ${counted(bad.length, "line")} left out, ${without}${more}.` : "";
  at("imported").textContent = `${counted(good.length, "term")} imported.${left}`;
}

export function exportTerms() {
  const clean = (cell) => cell.trim().replace(/[ \t-\r\x1c-\x1f\x85\u2028\u2029]+/g, " ");
  const lines = state.terms.map((row) => row.map(clean).join("\t").trimEnd());
  download(`${nameOfPair()}.tsv`, lines.map((line) => `${line}\n`).join(""));
}
