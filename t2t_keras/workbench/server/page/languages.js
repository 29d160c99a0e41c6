// @ts-check
// The source and target languages: chosen, swapped, or detected.

import { ask, Trouble } from "./server.js";
import { at, element, memory, state, tell } from "./state.js";
import { languageName, strings } from "./strings.js";

const MAX_DETECTION_CHARACTERS = 1000; // The beginning of a text is enough.

/**
 * Returns the codes of both languages, or null while the source is undetected.
 *
 * @returns {import("./state.js").Pair | null}
 */
export function pair() {
  const [chosen, target] = [at("source-language").value, at("target-language").value];
  const source = chosen === "auto" ? state.detected : chosen;
  return source && target ? { source, target } : null;
}

/** @param {string} code */
export const nameOf = (code) =>
  languageName(code, state.languages.find((served) => served.code === code)?.name ?? code);

/** @param {string} source */
function targetsOf(source) {
  const targets = state.languages
    .filter(({ code }) => source === "auto" || source === code)
    .flatMap(({ code, targets }) => targets.filter((target) => target !== code));
  return [...new Set(targets)];
}

/** @param {string[]} codes */
const options = (codes) =>
  codes.map((value) => element("option", { value, textContent: nameOf(value) }));

/** @param {string} [preferred] */
function drawTargets(preferred = "") {
  const targets = targetsOf(at("source-language").value);
  at("target-language").replaceChildren(...options(targets));
  if (targets.includes(preferred)) at("target-language").value = preferred;
}

/** Draws the server's languages, and selects those of the last visit. */
export function drawLanguages() {
  const sources = state.languages.map(({ code }) => code).filter((code) => targetsOf(code).length);
  const autoOption = element("option", { value: "auto" });
  at("source-language").replaceChildren(...options(sources), autoOption);
  const [source, target] = memory.get("languages", []);
  if ([...sources, "auto"].includes(source)) at("source-language").value = source;
  drawTargets(target);
  at("source-language").disabled = at("target-language").disabled = !sources.length;
  applyLanguages();
}

function applyLanguages() {
  const [chosen, target] = [at("source-language").value, at("target-language").value];
  const languages = pair();
  memory.set("languages", [chosen, target]);
  const autoOption = at("source-language").options[at("source-language").length - 1];
  autoOption.textContent = state.detected
    ? strings.detected(nameOf(state.detected))
    : strings.detectLanguage;
  at("source").lang = languages?.source ?? "";
  at("target").lang = at("announcement").lang = at("menu").lang = target;
  at("swap").disabled = !languages || !targetsOf(target).includes(languages.source);
  tell("languages");
}

/** Applies the user's choice of languages. */
export function chooseLanguages() {
  state.detected = null;
  drawTargets(at("target-language").value);
  applyLanguages();
}

/** Forgets the detected language of a cleared text. */
export function forgetDetected() {
  if (state.detected) chooseLanguages();
}

/**
 * Swaps the languages; the translation, if any, becomes the text.
 *
 * @param {string} translation
 */
export function swap(translation) {
  const languages = pair();
  if (!languages) return;
  const { source, target } = languages;
  at("source-language").value = target;
  state.detected = null;
  drawTargets(source);
  if (translation.trim()) at("source").value = translation;
  applyLanguages();
}

/**
 * Detects the language of the text, unless the user has chosen one.
 *
 * @param {string} text
 * @param {AbortSignal} signal
 */
export async function detect(text, signal) {
  if (at("source-language").value !== "auto") return;
  const q = text.slice(0, MAX_DETECTION_CHARACTERS);
  const ranked = await ask("detect", { body: { q }, signal });
  const code = ranked[0]?.language;
  const target = at("target-language").value;
  if (!code) throw new Trouble(strings.notRecognised);
  if (!targetsOf(code).includes(target))
    throw new Trouble(strings.notTranslated(nameOf(code), nameOf(target)));
  if (code === state.detected) return;
  state.detected = code;
  applyLanguages();
}
