// @ts-check
// Chooses sentence, kind, layer, heads and words, by pointer and by keyboard.

function drawSentence() {
  const sentence = DATA.sentences[state.sentence];
  const translation = sentence.hypotheses[0].parts.map(([text]) => text).join(" ");
  byId("source").textContent = sentence.source;
  byId("translation").textContent = translation || "(nothing)";
  document.title = `Attention: ${sentence.source}`;
  byId("hypotheses").replaceChildren(
    ...sentence.hypotheses.map(({ score, parts }, number) => {
      const text = element("span", { className: "sentence", dir: "auto" });
      parts.forEach(([part, differs], index) => {
        text.append(
          index ? " " : "",
          differs ? element("u", { textContent: part || "\u2003\u2003" }) : part,
        );
      });
      const shownScore = element("span", {
        className: "score",
        textContent: score.toFixed(3).replace("-", "−"),
      });
      return element("li", { className: number ? "" : "best" }, shownScore, text);
    }),
  );
  byId("differs").hidden = !sentence.hypotheses.some(({ parts }) =>
    parts.some(([, differs]) => differs),
  );
  byId("sentence").value = String(state.sentence);
  byId("previous").disabled = state.sentence === 0;
  byId("next").disabled = state.sentence === DATA.sentences.length - 1;
}

/** @param {boolean[]} heads */
function switchHeads(heads) {
  state.heads = heads;
  [...byId("heads").children].forEach((button, head) => {
    button.ariaPressed = String(heads[head]);
  });
  drawAttention();
}

/** @param {MouseEvent} event */
function chooseHead({ target, type, shiftKey }) {
  const button = target instanceof Element ? target.closest("button") : null;
  if (!button) return;
  const chosen = [...byId("heads").children].indexOf(button);
  const isAlone = shiftKey || type === "dblclick";
  switchHeads(
    state.heads.map((on, head) => (isAlone ? head === chosen : head === chosen ? !on : on)),
  );
}

/**
 * Sets the kind, also for a new sentence; keeps the layer if it exists.
 *
 * @param {Kind} kind
 */
function chooseKind(kind) {
  state.kind = kind;
  const { layers } = view();
  [...byId("layers").children].forEach((label, layer) => {
    label.toggleAttribute("hidden", layer >= layers);
  });
  drawWords();
  chooseLayer(Math.min(state.layer, layers - 1));
}

/** @param {number} layer */
function chooseLayer(layer) {
  state.layer = layer;
  byId("layers").querySelectorAll("input")[layer].checked = true;
  drawAttention();
}

/** @param {number} sentence */
function chooseSentence(sentence) {
  state.sentence = sentence;
  drawSentence();
  chooseKind(state.kind);
}

/**
 * @param {Event} event
 * @returns {Place | null}
 */
function placeOf({ target }) {
  const word = target instanceof Element ? target.closest(".words li") : null;
  const side = SIDES.find((id) => id === word?.parentElement?.id);
  return word && side
    ? { side, index: wordsOf(side).indexOf(/** @type {HTMLElement} */ (word)) }
    : null;
}

/**
 * @param {"hovered" | "chosen"} how
 * @param {Place | null} place
 */
function look(how, place) {
  if (state[how]?.side === place?.side && state[how]?.index === place?.index) return;
  state[how] = place;
  drawAttention();
}

/** @param {Place} place */
function goToWord({ side, index }) {
  const words = wordsOf(side);
  const next = Math.max(0, Math.min(words.length - 1, index));
  words.forEach((word, number) => {
    word.tabIndex = number === next ? 0 : -1;
  });
  words[next].focus();
}

/** @param {Event} event */
const chosenValue = ({ target }) => /** @type {any} */ (target).value;

function listen() {
  const columns = byId("columns");
  columns.addEventListener(
    "pointerover",
    (event) => event.pointerType === "mouse" && look("hovered", placeOf(event)),
  );
  columns.addEventListener("pointerleave", () => look("hovered", null));
  columns.addEventListener("focusin", (event) => look("chosen", placeOf(event)));
  // A word stays chosen while heads or layers are switched.
  columns.addEventListener("focusout", ({ relatedTarget: next }) => {
    const stays = next instanceof Element && next.closest(".controls, .columns");
    if (!stays) look("chosen", null);
  });
  let wasChosen = false;
  columns.addEventListener("pointerdown", (event) => {
    const place = placeOf(event);
    wasChosen = state.chosen?.side === place?.side && state.chosen?.index === place?.index;
    wasChosen &&= Boolean(place);
  });
  columns.addEventListener("click", (event) => {
    const place = placeOf(event);
    if (wasChosen) {
      if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
      look("chosen", null);
    } else if (place) goToWord(place);
  });
  columns.addEventListener("keydown", (event) => {
    const place = placeOf(event);
    if (!place) return;
    const { side, index } = place;
    /** @type {Record<string, Place>} */
    const moves = {
      ArrowDown: { side, index: index + 1 },
      ArrowUp: { side, index: index - 1 },
      Home: { side, index: 0 },
      End: { side, index: wordsOf(side).length - 1 },
      ArrowLeft: { side: "reads", index },
      ArrowRight: { side: "read", index },
    };
    if (!moves[event.key]) return;
    event.preventDefault();
    goToWord(moves[event.key]);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") look("chosen", null);
    const step = Number(event.key === "ArrowRight") - Number(event.key === "ArrowLeft");
    const layer = state.layer + step;
    if (event.target === document.body && step && layer >= 0 && layer < view().layers)
      chooseLayer(layer);
  });
  byId("kinds").addEventListener("change", (event) => chooseKind(chosenValue(event)));
  byId("layers").addEventListener("change", (event) => chooseLayer(Number(chosenValue(event))));
  byId("heads").addEventListener("click", chooseHead);
  byId("heads").addEventListener("dblclick", chooseHead);
  byId("all-heads").addEventListener("click", () => switchHeads(state.heads.map(() => true)));
  byId("no-heads").addEventListener("click", () => switchHeads(state.heads.map(() => false)));
  byId("sentence").addEventListener("change", () => chooseSentence(Number(byId("sentence").value)));
  byId("previous").addEventListener("click", () => chooseSentence(state.sentence - 1));
  byId("next").addEventListener("click", () => chooseSentence(state.sentence + 1));
  new ResizeObserver(drawAttention).observe(columns);
}

/** The browser itself moves among radio buttons with the arrow keys. */
function start() {
  const { layers, heads } = view();
  state.layer = layers - 1;
  state.heads = Array(heads).fill(true);
  chooseSentence(0);
  listen();
}

start();
