// Chooses sentence, kind, layer, heads and words, by pointer and by keyboard.
"use strict";

function drawSentence() {
  const sentence = DATA.sentences[state.sentence];
  const translation = sentence.hypotheses[0].parts.map(([text]) => text).join(" ");
  at("source").textContent = sentence.source;
  at("translation").textContent = translation || "(nothing)";
  document.title = `Attention: ${sentence.source}`;
  at("hypotheses").replaceChildren(
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
  at("differs").hidden = !sentence.hypotheses.some(({ parts }) =>
    parts.some(([, differs]) => differs),
  );
  at("sentence").value = state.sentence;
  at("previous").disabled = state.sentence === 0;
  at("next").disabled = state.sentence === DATA.sentences.length - 1;
  drawWords();
}

function drawHeads() {
  at("heads").replaceChildren(
    ...state.heads.map((on, head) => {
      const button = element("button", {
        type: "button",
        className: "head",
        title: "Shift-click: this head alone",
      });
      const line = `<line x2="20" y1="4" y2="4" ${stroke(head)}/>`;
      button.innerHTML = `<svg viewBox="0 0 20 8" aria-hidden="true">${line}</svg>${head}`;
      button.setAttribute("aria-pressed", String(on));
      button.setAttribute("aria-label", `Head ${head}`);
      const alone = () => switchHeads(state.heads.map((_, other) => other === head));
      button.addEventListener("click", (event) => {
        if (event.shiftKey) alone();
        else switchHeads(state.heads.map((other, index) => (index === head ? !other : other)));
      });
      button.addEventListener("dblclick", alone);
      return button;
    }),
  );
}

function switchHeads(heads) {
  state.heads = heads;
  [...at("heads").children].forEach((button, head) =>
    button.setAttribute("aria-pressed", String(heads[head])),
  );
  drawAttention();
}

/** A row of radio buttons: the browser itself moves among them by arrow keys. */
function drawChoice(id, choices, chosen, choose) {
  at(id).replaceChildren(
    ...choices.map(([value, text]) => {
      const input = element("input", { type: "radio", name: id, value, checked: value === chosen });
      input.addEventListener("change", () => choose(value));
      return element("label", {}, input, element("span", { textContent: text }));
    }),
  );
}

/** After a change of kind or sentence: the layer and the heads stay where they exist. */
function chooseKind(kind) {
  state.kind = kind;
  const { layers, heads } = view();
  state.layer = Math.min(state.layer, layers - 1);
  drawChoice(
    "layers",
    Array.from({ length: layers }, (_, layer) => [layer, String(layer)]),
    state.layer,
    chooseLayer,
  );
  if (state.heads.length !== heads) {
    state.heads = Array(heads).fill(true);
    drawHeads();
  }
}

function chooseLayer(layer) {
  state.layer = layer;
  at("layers").querySelectorAll("input")[layer].checked = true;
  drawAttention();
}

function chooseSentence(sentence) {
  state.sentence = Number(sentence);
  chooseKind(state.kind);
  drawSentence();
}

const locationOf = (target) => {
  const word = target.closest?.(".words li");
  return (
    word && { side: word.parentElement.id, index: [...word.parentElement.children].indexOf(word) }
  );
};

function look(how, location) {
  if (state[how]?.side === location?.side && state[how]?.index === location?.index) return;
  state[how] = location ?? null;
  drawAttention();
}

function goToWord(side, index) {
  const words = [...at(side).children];
  const next = Math.max(0, Math.min(words.length - 1, index));
  words.forEach((word, number) => {
    word.tabIndex = number === next ? 0 : -1;
  });
  words[next].focus();
}

function listen() {
  const columns = document.querySelector(".columns");
  columns.addEventListener(
    "pointerover",
    (event) => event.pointerType === "mouse" && look("hovered", locationOf(event.target)),
  );
  columns.addEventListener("pointerleave", () => look("hovered", null));
  columns.addEventListener("focusin", (event) => look("chosen", locationOf(event.target)));
  // A word stays chosen while heads or layers are switched.
  columns.addEventListener(
    "focusout",
    ({ relatedTarget }) => relatedTarget?.closest(".controls, .columns") || look("chosen", null),
  );
  let wasChosen = false;
  columns.addEventListener("pointerdown", (event) => {
    const { side, index } = locationOf(event.target) ?? {};
    wasChosen = Boolean(side) && state.chosen?.side === side && state.chosen.index === index;
  });
  columns.addEventListener("click", (event) => {
    const location = locationOf(event.target);
    if (wasChosen) {
      document.activeElement.blur();
      look("chosen", null);
    } else if (location) goToWord(location.side, location.index);
  });
  columns.addEventListener("keydown", (event) => {
    const { side, index } = locationOf(event.target) ?? {};
    const last = side && at(side).children.length - 1;
    const moves = {
      ArrowDown: [side, index + 1],
      ArrowUp: [side, index - 1],
      Home: [side, 0],
      End: [side, last],
      ArrowLeft: ["reads", index],
      ArrowRight: ["read", index],
    };
    if (!side || !moves[event.key]) return;
    event.preventDefault();
    goToWord(...moves[event.key]);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") look("chosen", null);
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const layer = state.layer + step;
    if (event.target === document.body && step && layer >= 0 && layer < view().layers)
      chooseLayer(layer);
  });
  at("all-heads").addEventListener("click", () => switchHeads(state.heads.map(() => true)));
  at("no-heads").addEventListener("click", () => switchHeads(state.heads.map(() => false)));
  at("sentence").addEventListener("change", (event) => chooseSentence(event.target.value));
  at("previous").addEventListener("click", () => chooseSentence(state.sentence - 1));
  at("next").addEventListener("click", () => chooseSentence(state.sentence + 1));
  new ResizeObserver(drawAttention).observe(columns);
}

function start() {
  document.querySelector(".chooser").hidden = DATA.sentences.length === 1;
  at("sentence").append(
    ...DATA.sentences.map(({ source }, number) =>
      element("option", { value: number, textContent: `${number + 1}. ${source}` }),
    ),
  );
  state.layer = DATA.sentences[0].views[state.kind].layers - 1;
  drawChoice(
    "kinds",
    Object.entries(KINDS).map(([kind, [name]]) => [kind, name]),
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
