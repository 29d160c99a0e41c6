// @ts-check
// Files: dropped or chosen, translated one after another, and offered for download.

import { pair } from "./languages.js";
import { ask, messageOf, Trouble } from "./server.js";
import { around, at, element, state } from "./state.js";
import { strings } from "./strings.js";

/** @import { Pair } from "./state.js" */

let queue = Promise.resolve();

/** @type {WeakMap<Element, AbortController>} */
const requestOfRow = new WeakMap();

/** Shows the supported file formats, once they are known. */
export function drawFormats() {
  if (!state.formats) return;
  at("formats").textContent = strings.formats(state.formats.join(", "));
  at("file").accept = state.formats.join(",");
}

/**
 * Translates files between the current languages.
 *
 * @param {Iterable<File>} files
 */
export function translateFiles(files) {
  const target = at("target-language").value;
  const source = pair()?.source ?? "auto";
  for (const file of files) {
    const status = element("span", { textContent: strings.waiting, className: "note" });
    const name = element("span", { textContent: file.name, className: "name", dir: "auto" });
    const remove = element("button", {
      type: "button",
      className: "icon",
      textContent: "×",
      ariaLabel: strings.removeFile(file.name),
    });
    const request = new AbortController();
    const row = element("li", {}, name, status, remove);
    requestOfRow.set(row, request);
    at("files").append(row);
    queue = queue.then(() => translateFile(file, { source, target }, status, request.signal));
  }
}

/**
 * @param {File} file
 * @param {Pair} languages
 * @param {HTMLElement} status
 * @param {AbortSignal} signal
 */
async function translateFile(file, languages, status, signal) {
  if (signal.aborted) return;
  status.textContent = strings.translating;
  try {
    checkFile(file, languages);
    const body = new FormData();
    body.set("source", languages.source);
    body.set("target", languages.target);
    body.set("file", file);
    const { translatedFileUrl } = await ask("translate_file", { body, signal, patience: Infinity });
    status.replaceWith(downloadLink(translatedFileUrl));
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof Trouble)) console.error(error);
    status.textContent = messageOf(error);
    status.className = "bad";
  }
}

/** @type {(file: File, languages: Pair) => void} */
function checkFile({ name, size }, { target }) {
  const suffix = name.match(/\.[^.]*$/)?.[0].toLowerCase() ?? "";
  if (!target) throw new Trouble(strings.noLanguages);
  if (state.formats && !state.formats.includes(suffix))
    throw new Trouble(strings.wrongFormat(state.formats.join(", ")));
  if (!size) throw new Trouble(strings.emptyFile);
}

/** @param {string} url */
function downloadLink(url) {
  // The link is relative to this page, as a proxy may change the server's name.
  const { pathname, search } = new URL(url, location.href);
  const fileName = decodeURIComponent(pathname.slice(pathname.lastIndexOf("/") + 1));
  const anchor = element("a", { href: pathname + search, download: fileName });
  anchor.append(`${strings.download} `, element("span", { textContent: fileName }));
  return anchor;
}

/** Accepts files that are dropped anywhere; leaves other drags to the browser. */
export function listenToFiles() {
  at("files").addEventListener("click", (event) => {
    const row = around(event, "button")?.closest("li");
    if (!row) return;
    requestOfRow.get(row)?.abort();
    row.remove();
    at("choose").focus();
  });
  const hasFiles = (/** @type {DragEvent} */ event) => event.dataTransfer?.types.includes("Files");
  let depth = 0; // Each element that is entered or left fires an event.
  const changeDepth = (/** @type {number} */ change) => {
    depth = Math.max(0, depth + change);
    at("drop").hidden = !depth;
  };
  document.addEventListener("dragenter", (event) => hasFiles(event) && changeDepth(1));
  document.addEventListener("dragleave", (event) => hasFiles(event) && changeDepth(-1));
  document.addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
  document.addEventListener("drop", (event) => {
    if (!event.dataTransfer || !hasFiles(event)) return;
    event.preventDefault();
    changeDepth(-depth);
    translateFiles(event.dataTransfer.files);
    at("files-section").scrollIntoView({ block: "nearest" });
  });
}
