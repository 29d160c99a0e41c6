// The languages to translate between: chosen, swapped, or detected.

import { ask, Trouble } from "./server.js";
import { at, element, memory, state, tell } from "./state.js";

const DETECTED_CHARACTERS = 1000; // The beginning of a text is enough.

/** Returns the codes of both languages, or null while the source is undetected. */
export function pair() {
  const [chosen, target] = [at("source-language").value, at("target-language").value];
  const source = chosen === "auto" ? state.detected : chosen;
  return source && target ? { source, target } : null;
}

export const nameOf = (code) =>
  state.languages.find((language) => language.code === code)?.name ?? code;

function targetsOf(code) {
  const targets = state.languages
    .filter((language) => code === "auto" || language.code === code)
    .flatMap((language) => language.targets.filter((target) => target !== language.code));
  return [...new Set(targets)];
}

const options = (codes) =>
  codes.map((value) => element("option", { value, textContent: nameOf(value) }));

function drawTargets(wanted) {
  const targets = targetsOf(at("source-language").value);
  at("target-language").replaceChildren(...options(targets));
  if (targets.includes(wanted)) at("target-language").value = wanted;
}

/** Draws the server's languages, and selects those of the last visit. */
export function drawLanguages() {
  const sources = state.languages.map(({ code }) => code).filter((code) => targetsOf(code).length);
  const auto = element("option", { value: "auto" });
  at("source-language").replaceChildren(...options(sources), auto);
  const [source, target] = memory.get("languages", []);
  if ([...sources, "auto"].includes(source)) at("source-language").value = source;
  drawTargets(target);
  for (const id of ["source-language", "target-language"]) at(id).disabled = !sources.length;
  settle();
}

function settle() {
  const [chosen, target] = [at("source-language").value, at("target-language").value];
  const languages = pair();
  memory.set("languages", [chosen, target]);
  at("source-language").lastElementChild.textContent = state.detected
    ? `${nameOf(state.detected)} (detected)`
    : "Detect language";
  at("source").lang = languages?.source ?? "";
  at("target").lang = at("announcement").lang = at("menu").lang = target;
  at("swap").disabled = !languages || !targetsOf(target).includes(languages.source);
  tell("languages");
}

/** Applies the user's choice of languages. */
export function chooseLanguages() {
  state.detected = null;
  drawTargets(at("target-language").value);
  settle();
}

/** Forgets the detected language of a cleared text. */
export function forgetDetected() {
  if (state.detected) chooseLanguages();
}

/** Swaps the languages; the translation, if any, becomes the text. */
export function swap(translation) {
  const { source, target } = pair();
  at("source-language").value = target;
  state.detected = null;
  drawTargets(source);
  if (translation.trim()) at("source").value = translation;
  settle();
}

/** Detects the language of the text, unless the user has chosen one. */
export async function detect(text, signal) {
  if (at("source-language").value !== "auto") return;
  const q = text.slice(0, DETECTED_CHARACTERS);
  const ranked = await ask("detect", { body: { q }, signal });
  const code = ranked[0]?.language;
  const target = at("target-language").value;
  if (!code) throw new Trouble("The language of the text was not recognised. Choose it.");
  if (!targetsOf(code).includes(target)) {
    const what = `The text seems to be ${nameOf(code)}, which this server does not translate`;
    throw new Trouble(`${what} into ${nameOf(target)}. Choose other languages.`);
  }
  if (code === state.detected) return;
  state.detected = code;
  settle();
}
