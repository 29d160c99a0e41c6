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
  drawWords();
}

function drawHeads() {
  byId("heads").replaceChildren(
    ...state.heads.map((on, head) => {
      const button = element("button", {
        type: "button",
        className: "head",
        title: "Shift-click: this head alone",
        ariaPressed: String(on),
        ariaLabel: `Head ${head}`,
      });
      const line = `<line x2="20" y1="4" y2="4" ${stroke(head)}/>`;
      button.innerHTML = `<svg viewBox="0 0 20 8" aria-hidden="true">${line}</svg>${head}`;
      return button;
    }),
  );
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
 * Draws a row of radio buttons; the browser itself moves among them with the arrow keys.
 *
 * @template {string | number} Value
 * @param {string} id
 * @param {[Value, string][]} choices
 * @param {Value} chosen
 * @param {(value: Value) => void} choose
 */
function drawChoice(id, choices, chosen, choose) {
  byId(id).replaceChildren(
    ...choices.map(([value, text]) => {
      const checked = value === chosen;
      const input = element("input", { type: "radio", name: id, value: String(value), checked });
      input.addEventListener("change", () => choose(value));
      return element("label", {}, input, element("span", { textContent: text }));
    }),
  );
}

/**
 * Sets the kind, also for a new sentence; keeps the layer and the heads if they exist.
 *
 * @param {Kind} kind
 */
function chooseKind(kind) {
  state.kind = kind;
  const { layers, heads } = view();
  state.layer = Math.min(state.layer, layers - 1);
  drawChoice(
    "layers",
    Array.from(
      { length: layers },
      (_, layer) => /** @type {[number, string]} */ ([layer, String(layer)]),
    ),
    state.layer,
    chooseLayer,
  );
  if (state.heads.length !== heads) {
    state.heads = Array(heads).fill(true);
    drawHeads();
  }
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
  chooseKind(state.kind);
  drawSentence();
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
  byId("heads").addEventListener("click", chooseHead);
  byId("heads").addEventListener("dblclick", chooseHead);
  byId("all-heads").addEventListener("click", () => switchHeads(state.heads.map(() => true)));
  byId("no-heads").addEventListener("click", () => switchHeads(state.heads.map(() => false)));
  byId("sentence").addEventListener("change", () => chooseSentence(Number(byId("sentence").value)));
  byId("previous").addEventListener("click", () => chooseSentence(state.sentence - 1));
  byId("next").addEventListener("click", () => chooseSentence(state.sentence + 1));
  new ResizeObserver(drawAttention).observe(columns);
}

function start() {
  byId("chooser").hidden = DATA.sentences.length === 1;
  byId("sentence").append(
    ...DATA.sentences.map(({ source }, number) =>
      element("option", { value: String(number), textContent: `${number + 1}. ${source}` }),
    ),
  );
  state.layer = DATA.sentences[0].views[state.kind].layers - 1;
  drawChoice(
    "kinds",
    KIND_NAMES.map((kind) => /** @type {[Kind, string]} */ ([kind, KINDS[kind][0]])),
    state.kind,
    (kind) => {
      chooseKind(kind);
      drawWords();
    },
  );
  chooseSentence(0);
  listen();
}

start();
