// Draws the words and their lines, and reports the weights of a word.
"use strict";

const at = (id) => document.getElementById(id);
const DATA = JSON.parse(at("data").textContent);
const KINDS = {
  encoder: [
    "Encoder",
    "Word of the source",
    "Word it reads",
    "Encoder self-attention: each word of the source, left, reads all of them, right.",
  ],
  decoder: [
    "Decoder",
    "Word predicted",
    "Word read before",
    "Decoder self-attention: to predict a word, left, the decoder reads an empty start and the " +
      "words before it.",
  ],
  cross: [
    "Cross",
    "Word predicted",
    "Word of the source",
    "Encoder-decoder attention: to predict a word, left, the decoder reads the source, right.",
  ],
};
const LEAST_WEIGHT = 0.02;
const THICKEST = 5; // pixels of a weight of 1
const SIDES = ["reads", "read"];

// What is shown. A word is {side, index}: a hovered one overrides a chosen one.
const state = { sentence: 0, kind: "cross", layer: 0, heads: [], hovered: null, chosen: null };

const views = new Map();

/** Unpacks one kind of attention of the sentence: words, and steps, see `weight`. */
function view() {
  const key = `${state.sentence} ${state.kind}`;
  if (!views.has(key)) {
    const packed = DATA.sentences[state.sentence].views[state.kind];
    const bytes = Uint8Array.from(atob(packed.weights), (character) => character.charCodeAt(0));
    views.set(key, { ...packed, steps: new DataView(bytes.buffer) });
  }
  return views.get(key);
}

/** A weight of the layer that is chosen; they are whole steps, two bytes each. */
function weight(shown, head, query, key) {
  const { heads, queries, keys, steps } = shown;
  const index = ((state.layer * heads + head) * queries.length + query) * keys.length + key;
  return steps.getUint16(2 * index, true) / DATA.weightSteps;
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

const activeHeads = () => state.heads.flatMap((on, head) => (on ? [head] : []));
const active = () => state.hovered ?? state.chosen;

/** For each word of the other side, its weights with one word: those of the heads shown. */
function weightsWith(shown, { side, index }) {
  const heads = activeHeads();
  const others = side === "reads" ? shown.keys : shown.queries;
  return others.map((_, other) =>
    heads.map((head) =>
      side === "reads" ? weight(shown, head, index, other) : weight(shown, head, other, index),
    ),
  );
}

const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / (numbers.length || 1);

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
  const width = Math.round(at("lines").getBoundingClientRect().width);
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
        const thickness = THICKEST * weight(shown, head, query, key);
        if (thickness < THICKEST * LEAST_WEIGHT) return;
        const [left, right] = [start + shift, end + shift].map((y) => y.toFixed(1));
        paths +=
          `<path d="M2 ${left}L${width - 2} ${right}" stroke-width="${thickness.toFixed(2)}" ` +
          `data-ends="${query} ${key}"/>`;
      });
    });
    return `<g data-head="${head}" ${stroke(head)}>${paths}</g>`;
  });
  at("lines").innerHTML = groups.join("");
  markWords(shown, chosen);
}

const stroke = (head) => {
  const dashes = DATA.dashes[Math.floor(head / DATA.colors) % DATA.dashes.length];
  return (
    `stroke="${color(head)}"` + (dashes.length ? ` stroke-dasharray="${dashes.join(" ")}"` : "")
  );
};
const color = (head) => `var(--c${head % DATA.colors})`;

/** Shows, at the words of the other side, the weights of the word that is looked at. */
function markWords(shown, chosen) {
  const weights = chosen ? weightsWith(shown, chosen) : [];
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
  report(shown, chosen, weights);
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

function report(shown, chosen, weights) {
  if (!activeHeads().length) {
    at("report").textContent = "No head is switched on.";
    return;
  }
  if (!chosen) {
    at("report").textContent =
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
  const parts = strongest.flatMap(([average, text], index) => [
    index ? ", " : " ",
    element("bdi", { textContent: text }),
    " ",
    element("span", { className: "weight", textContent: average.toFixed(2) }),
  ]);
  const verb = isQuery
    ? state.kind === "encoder"
      ? " reads"
      : ", when predicted, reads"
    : " is read by";
  at("report").replaceChildren(
    element("bdi", { textContent: mine[chosen.index].text }),
    verb,
    ...(parts.length ? parts : [" nothing"]),
    element("span", {
      className: "weight",
      textContent: activeHeads().length > 1 ? " (mean of the heads shown)" : "",
    }),
  );
}
