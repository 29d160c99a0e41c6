"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const KINDS = {
  encoder: [
    "Encoder",
    "Word of the source",
    "Word it reads",
    "Encoder self-attention: each word of the source, left, reads the words of the source, right.",
  ],
  decoder: [
    "Decoder",
    "Word predicted",
    "Word read before",
    "Decoder self-attention: to predict the word on the left, the decoder reads the words before " +
      "it, right. They come from a start that holds nothing.",
  ],
  cross: [
    "Cross",
    "Word predicted",
    "Word of the source",
    "Encoder-decoder attention: to predict the word on the left, the decoder reads the words of the source, right.",
  ],
};
const LEAST_LINE = 0.02;
const THICKEST = 5; // pixels of a weight of 1
const at = (id) => document.getElementById(id);
const SIDES = ["reads", "read"];

const views = new Map();
const state = { sentence: 0, kind: "cross", layer: 0, heads: [], hovered: null, chosen: null };

/** Unpacks one kind of attention of the sentence: words, and weight(head, query, key). */
function view() {
  const key = `${state.sentence} ${state.kind}`;
  if (!views.has(key)) {
    const packed = DATA.sentences[state.sentence].views[state.kind];
    const bytes = Uint8Array.from(atob(packed.weights), (character) => character.charCodeAt(0));
    views.set(key, { ...packed, steps: new DataView(bytes.buffer) });
  }
  return views.get(key);
}

function weight(shown, head, query, key) {
  const { heads, queries, keys, steps } = shown;
  const place = ((state.layer * heads + head) * queries.length + query) * keys.length + key;
  return steps.getUint16(2 * place, true) / DATA.weightSteps;
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const activeHeads = () => state.heads.flatMap((on, head) => (on ? [head] : []));
const active = () => state.hovered ?? state.chosen;

/** The mean weight, over the heads shown, between a word of one side and each of the other's. */
function meanWeights(shown, { side, index }) {
  const heads = activeHeads();
  const others = side === "reads" ? shown.keys : shown.queries;
  return others.map((_, other) =>
    heads.map((head) =>
      side === "reads" ? weight(shown, head, index, other) : weight(shown, head, other, index),
    ),
  );
}

const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / (numbers.length || 1);

function drawSentence() {
  const sentence = DATA.sentences[state.sentence];
  const translation = sentence.hypotheses[0].parts.map(([text]) => text).join(" ");
  at("source").textContent = sentence.source;
  at("translation").textContent = translation || "(nothing)";
  document.title = `Attention: ${sentence.source}`;
  at("hypotheses").replaceChildren(
    ...sentence.hypotheses.map(({ score, parts }, number) => {
      const text = element("span", { className: "sentence", dir: "auto" });
      parts.forEach(([part, differs], place) => {
        text.append(
          place ? " " : "",
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

function drawWords() {
  const shown = view();
  const [, reads, read, meaning] = KINDS[state.kind];
  at("reads-label").textContent = reads;
  at("read-label").textContent = read;
  at("meaning").textContent = meaning;
  state.hovered = state.chosen = null;
  SIDES.forEach((side) => {
    const pieces = side === "reads" ? shown.queries : shown.keys;
    at(side).replaceChildren(
      ...pieces.map(({ text, joined, special }, index) => {
        const word = element(
          "li",
          {
            className: [joined && "joined", special && "special"].filter(Boolean).join(" "),
            tabIndex: index ? -1 : 0,
            title: text,
          },
          element("bdi", { className: "piece", textContent: text }),
          element("span", { className: "number" }),
        );
        word.setAttribute("role", "option");
        word.setAttribute("aria-label", text);
        word.setAttribute("aria-selected", "false");
        return word;
      }),
    );
  });
  drawAttention();
}

/** Where lines end: for each word of a side, its middle, from the top of the drawing. */
function middles(side) {
  const top = at("lines").getBoundingClientRect().top;
  return [...at(side).children].map((word) => {
    const box = word.getBoundingClientRect();
    return box.top + box.height / 2 - top;
  });
}

function drawAttention() {
  const shown = view();
  const heads = activeHeads();
  const chosen = active();
  const width = at("lines").getBoundingClientRect().width;
  const [from, to] = SIDES.map(middles);
  // Heads run beside each other, in the height of a word, so that none hides another.
  const apart = Math.min(5, 22 / Math.max(1, heads.length - 1));
  const groups = heads.map((head, number) => {
    const shift = (number - (heads.length - 1) / 2) * apart;
    let paths = "";
    from.forEach((start, query) => {
      if (chosen?.side === "reads" && chosen.index !== query) return;
      to.forEach((end, key) => {
        if (chosen?.side === "read" && chosen.index !== key) return;
        const thickness = weight(shown, head, query, key);
        if (thickness < LEAST_LINE) return;
        paths +=
          `<path d="M2 ${(start + shift).toFixed(1)}L${(width - 2).toFixed(1)} ${(end + shift).toFixed(1)}" ` +
          `stroke-width="${(thickness * THICKEST).toFixed(2)}" data-ends="${query} ${key}"/>`;
      });
    });
    return `<g data-head="${head}" ${stroke(head)}>${paths}</g>`;
  });
  at("lines").innerHTML = groups.join("");
  markWords(shown, chosen);
}

const stroke = (head) => {
  const dashes = DATA.dashes[Math.floor(head / DATA.colors.light.length) % DATA.dashes.length];
  return (
    `stroke="${color(head)}"` + (dashes.length ? ` stroke-dasharray="${dashes.join(" ")}"` : "")
  );
};
const color = (head) => `var(--head-${head % DATA.colors.light.length})`;

/** Shows, at the words of the other side, the weights of the word that is looked at. */
function markWords(shown, chosen) {
  const weights = chosen ? meanWeights(shown, chosen) : [];
  SIDES.forEach((side) => {
    [...at(side).children].forEach((word, index) => {
      const mine = chosen && side === chosen.side && index === chosen.index;
      const [piece, number] = word.children;
      const other = chosen && side !== chosen.side ? weights[index] : [];
      word.classList.toggle("chosen", Boolean(mine));
      word.setAttribute("aria-selected", String(Boolean(mine)));
      piece.style.backgroundImage = stripes(other);
      const average = mean(other);
      number.textContent = average >= 0.005 ? average.toFixed(2) : "";
    });
  });
  tell(shown, chosen, weights);
}

/** A word's background: a stripe for each head, as strong as its weight. */
function stripes(weights) {
  if (!weights.length) return "";
  const heads = activeHeads();
  const stops = weights.map((each, number) => {
    // Never so strong that the word on it is hard to read.
    const share = `calc(var(--strongest) * ${each.toFixed(3)})`;
    const tint = `color-mix(in srgb, ${color(heads[number])} ${share}, transparent)`;
    return `${tint} ${(100 * number) / weights.length}% ${(100 * (number + 1)) / weights.length}%`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

function tell(shown, chosen, weights) {
  if (!activeHeads().length) {
    at("told").textContent = "No head is switched on.";
    return;
  }
  if (!chosen) {
    at("told").textContent =
      "Point at a word, tap it or go to it with Tab: only its lines are shown, with their weights.";
    return;
  }
  const isQuery = chosen.side === "reads";
  const [mine, others] = isQuery ? [shown.queries, shown.keys] : [shown.keys, shown.queries];
  const strongest = weights
    .map((each, index) => [mean(each), others[index].text])
    .filter(([average]) => average >= 0.005)
    .sort(([one], [other]) => other - one)
    .slice(0, 5);
  const told = strongest.flatMap(([average, text], place) => [
    place ? ", " : " ",
    element("bdi", { textContent: text }),
    " ",
    element("span", { className: "weight", textContent: average.toFixed(2) }),
  ]);
  const verb = isQuery
    ? state.kind === "encoder"
      ? " reads"
      : ", when predicted, reads"
    : " is read by";
  at("told").replaceChildren(
    element("bdi", { textContent: mine[chosen.index].text }),
    verb,
    ...(told.length ? told : [" nothing"]),
    element("span", {
      className: "weight",
      textContent: activeHeads().length > 1 ? " (mean of the heads shown)" : "",
    }),
  );
}

function drawHeads() {
  at("heads").replaceChildren(
    ...state.heads.map((on, head) => {
      const button = element("button", {
        type: "button",
        className: "head",
        title: "Shift-click: this head alone",
      });
      button.innerHTML = `<svg viewBox="0 0 20 8" aria-hidden="true"><line x2="20" y1="4" y2="4" ${stroke(head)}/></svg>${head}`;
      button.setAttribute("aria-pressed", String(on));
      button.setAttribute("aria-label", `Head ${head}`);
      const alone = () => switchHeads(state.heads.map((_, other) => other === head));
      button.addEventListener("click", (event) => {
        if (event.shiftKey) alone();
        else switchHeads(state.heads.map((other, place) => (place === head ? !other : other)));
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

const placeOf = (target) => {
  const word = target.closest?.(".words li");
  return (
    word && { side: word.parentElement.id, index: [...word.parentElement.children].indexOf(word) }
  );
};

function look(how, place) {
  if (state[how]?.side === place?.side && state[how]?.index === place?.index) return;
  state[how] = place ?? null;
  drawAttention();
}

function goToWord(side, index) {
  const words = [...at(side).children];
  const next = Math.max(0, Math.min(words.length - 1, index));
  words.forEach((word, place) => {
    word.tabIndex = place === next ? 0 : -1;
  });
  words[next].focus();
}

function listen() {
  const columns = document.querySelector(".columns");
  columns.addEventListener(
    "pointerover",
    (event) => event.pointerType === "mouse" && look("hovered", placeOf(event.target)),
  );
  columns.addEventListener("pointerleave", () => look("hovered", null));
  columns.addEventListener("focusin", (event) => look("chosen", placeOf(event.target)));
  // A word stays chosen while heads or layers are switched.
  columns.addEventListener(
    "focusout",
    ({ relatedTarget }) => relatedTarget?.closest(".controls, .columns") || look("chosen", null),
  );
  let wasChosen = false;
  columns.addEventListener("pointerdown", (event) => {
    const place = placeOf(event.target);
    wasChosen =
      Boolean(place) && state.chosen?.side === place.side && state.chosen.index === place.index;
  });
  columns.addEventListener("click", (event) => {
    const place = placeOf(event.target);
    if (wasChosen) {
      document.activeElement.blur();
      look("chosen", null);
    } else if (place) goToWord(place.side, place.index);
  });
  columns.addEventListener("keydown", (event) => {
    const { side, index } = placeOf(event.target) ?? {};
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
  const declared = (colors) =>
    `:root{${colors.map((value, head) => `--head-${head}:${value}`).join(";")}}`;
  document.head.append(
    element("style", {
      textContent: `${declared(DATA.colors.light)}@media (prefers-color-scheme: dark){${declared(DATA.colors.dark)}}`,
    }),
  );
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
