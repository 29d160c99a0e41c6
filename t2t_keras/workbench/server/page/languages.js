// The languages to translate between: chosen, swapped, or found in the text.

import { ask, Trouble } from "./server.js";
import { at, element, memory, state, tell } from "./state.js";

const DETECTED_CHARACTERS = 1000; // The beginning of a text tells its language.

/** Returns the languages' codes, or null as long as the text's is not known. */
export function pair() {
  const [chosen, target] = [at("source-language").value, at("target-language").value];
  const source = chosen === "auto" ? state.detected : chosen;
  return source && target ? { source, target } : null;
}

export const nameOf = (code) => state.languages.find((each) => each.code === code)?.name ?? code;

function targetsOf(code) {
  const targets = state.languages
    .filter((each) => code === "auto" || each.code === code)
    .flatMap((each) => each.targets.filter((target) => target !== each.code));
  return [...new Set(targets)];
}

const options = (codes) =>
  codes.map((value) => element("option", { value, textContent: nameOf(value) }));

function drawTargets(wanted) {
  const targets = targetsOf(at("source-language").value);
  at("target-language").replaceChildren(...options(targets));
  if (targets.includes(wanted)) at("target-language").value = wanted;
}

/** Draws the languages of the server, and chooses those of the last time. */
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

/** After the reader chose other languages. */
export function chooseLanguages() {
  state.detected = null;
  drawTargets(at("target-language").value);
  settle();
}

/** The text is gone, and its language with it. */
export function forgetDetected() {
  if (state.detected) chooseLanguages();
}

/** Exchanges the languages; the translation, if there is one, becomes the text. */
export function swap(translation) {
  const { source, target } = pair();
  at("source-language").value = target;
  state.detected = null;
  drawTargets(source);
  if (translation.trim()) at("source").value = translation;
  settle();
}

/** Finds the language of the text, where the reader leaves that to the server. */
export async function detect(text, signal) {
  if (at("source-language").value !== "auto") return;
  const found = await ask("detect", { body: { q: text.slice(0, DETECTED_CHARACTERS) }, signal });
  const code = found[0]?.language;
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
