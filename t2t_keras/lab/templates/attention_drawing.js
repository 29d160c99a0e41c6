// @ts-check
// Draws the words and their lines, and reports the weights of a word.

/**
 * The page's data, see insights.py: queries and keys as the words that read and are read.
 * `weights` are whole steps, two bytes each, in Base64; `steps` are the same, unpacked when shown.
 *
 * @typedef {{text: string, joined: boolean, special: boolean}} Piece
 * @typedef {{reads: Piece[], read: Piece[], layers: number, heads: number, weights: string,
 *   steps?: DataView}} View
 * @typedef {{score: number, parts: [string, boolean][]}} ScoredText
 * @typedef {{source: string, hypotheses: ScoredText[], views: Record<Kind, View>}} Sentence
 *
 * @typedef {"encoder" | "decoder" | "cross"} Kind
 * @typedef {"reads" | "read"} Side
 * @typedef {{side: Side, index: number}} Place A word of a side.
 * @typedef {{sentence: HTMLSelectElement, previous: HTMLButtonElement, next: HTMLButtonElement}}
 *   Controls
 */

/**
 * @template {string} Id
 * @param {Id} id
 * @returns {Id extends keyof Controls ? Controls[Id] : HTMLElement}
 */
const byId = (id) => /** @type {any} */ (document.getElementById(id));

/** @type {{sentences: Sentence[], weightSteps: number, colors: number}} */
const DATA = JSON.parse(byId("data").textContent);

/** @type {Record<Kind, [string, string, string]>} */
const KINDS = {
  encoder: [
    "Word of the source",
    "Word it reads",
    "Encoder self-attention: each word of the source, left, reads all of them, right.",
  ],
  decoder: [
    "Word predicted",
    "Word read before",
    "Decoder self-attention: to predict a word, left, the decoder reads an empty start and the " +
      "words before it.",
  ],
  cross: [
    "Word predicted",
    "Word of the source",
    "Encoder-decoder attention: to predict a word, left, the decoder reads the source, right.",
  ],
};
const MIN_WEIGHT = 0.02;
const MAX_THICKNESS = 5; // pixels of a weight of 1
const SIDES = /** @type {const} */ (["reads", "read"]);

// What is shown. A hovered word overrides a chosen one.
const state = {
  sentence: 0,
  kind: /** @type {Kind} */ ("cross"),
  layer: 0,
  heads: /** @type {boolean[]} */ ([]),
  hovered: /** @type {Place | null} */ (null),
  chosen: /** @type {Place | null} */ (null),
};

const view = () => DATA.sentences[state.sentence].views[state.kind];

/**
 * Returns a weight in the chosen layer.
 *
 * @param {number} head
 * @param {number} query
 * @param {number} key
 */
function weight(head, query, key) {
  const shown = view();
  shown.steps ??= new DataView(
    Uint8Array.from(atob(shown.weights), (character) => character.charCodeAt(0)).buffer,
  );
  const { heads, reads, read, steps } = shown;
  const index = ((state.layer * heads + head) * reads.length + query) * read.length + key;
  return steps.getUint16(2 * index, true) / DATA.weightSteps;
}

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Partial<HTMLElementTagNameMap[Tag]>} properties
 * @param {...(Node | string)} children
 */
function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  Object.assign(node, properties);
  node.append(...children);
  return node;
}

const activeHeads = () => state.heads.flatMap((on, head) => (on ? [head] : []));
const active = () => state.hovered ?? state.chosen;

/**
 * @param {Side} side
 * @returns {Side}
 */
const otherSide = (side) => (side === "reads" ? "read" : "reads");

/** @param {Side} side */
const wordsOf = (side) => /** @type {HTMLElement[]} */ ([...byId(side).children]);

/**
 * Returns the weights between a word and each word of the other side, for the shown heads.
 *
 * @param {Place} place
 */
function weightsWith({ side, index }) {
  const heads = activeHeads();
  return view()[otherSide(side)].map((_, other) =>
    heads.map((head) =>
      side === "reads" ? weight(head, index, other) : weight(head, other, index),
    ),
  );
}

/** @param {number[]} numbers */
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / (numbers.length || 1);

function drawWords() {
  const [reads, read, meaning] = KINDS[state.kind];
  byId("reads-label").textContent = reads;
  byId("read-label").textContent = read;
  byId("meaning").textContent = meaning;
  state.hovered = state.chosen = null;
  SIDES.forEach((side) => {
    byId(side).replaceChildren(
      ...view()[side].map(({ text, joined, special }, index) =>
        element(
          "li",
          {
            className: [joined && "joined", special && "special"].filter(Boolean).join(" "),
            role: "option",
            ariaSelected: "false",
            tabIndex: index ? -1 : 0,
            title: text,
          },
          element("bdi", { className: "piece", textContent: text }),
          element("span", { className: "number" }),
        ),
      ),
    );
  });
}

/**
 * Returns where lines end: the middle of each word of a side, from the top of the drawing.
 *
 * @param {Side} side
 */
function middles(side) {
  const top = byId("lines").getBoundingClientRect().top;
  return wordsOf(side).map((word) => {
    const box = word.getBoundingClientRect();
    return box.top + box.height / 2 - top;
  });
}

function drawAttention() {
  const heads = activeHeads();
  const chosen = active();
  const width = Math.round(byId("lines").getBoundingClientRect().width);
  const [from, to] = SIDES.map(middles);
  // The heads' lines run side by side, within the height of a word, so that none hides another.
  const apart = Math.min(5, 22 / Math.max(1, heads.length - 1));
  const groups = heads.map((head, number) => {
    const shift = (number - (heads.length - 1) / 2) * apart;
    let paths = "";
    from.forEach((start, query) => {
      if (chosen?.side === "reads" && chosen.index !== query) return;
      to.forEach((end, key) => {
        if (chosen?.side === "read" && chosen.index !== key) return;
        const thickness = MAX_THICKNESS * weight(head, query, key);
        if (thickness < MAX_THICKNESS * MIN_WEIGHT) return;
        const [left, right] = [start + shift, end + shift].map((y) => y.toFixed(1));
        paths +=
          `<path d="M2 ${left}L${width - 2} ${right}" stroke-width="${thickness.toFixed(2)}" ` +
          `data-ends="${query} ${key}"/>`;
      });
    });
    return `<g data-head="${head}" class="head-${head}">${paths}</g>`;
  });
  byId("lines").innerHTML = groups.join("");
  markWords(chosen);
}

/** @param {number} head */
const color = (head) => `var(--c${head % DATA.colors})`;

/**
 * Shows the weights of the active word beside the words of the other side.
 *
 * @param {Place | null} chosen
 */
function markWords(chosen) {
  const weights = chosen ? weightsWith(chosen) : [];
  SIDES.forEach((side) => {
    wordsOf(side).forEach((word, index) => {
      const isChosen = side === chosen?.side && index === chosen.index;
      const [piece, number] = /** @type {HTMLElement[]} */ ([...word.children]);
      const wordWeights = chosen && side !== chosen.side ? weights[index] : [];
      word.classList.toggle("chosen", isChosen);
      word.ariaSelected = String(isChosen);
      piece.style.backgroundImage = stripes(wordWeights);
      const average = mean(wordWeights);
      number.textContent = average >= 0.005 ? average.toFixed(2) : "";
    });
  });
  report(chosen, weights);
}

/**
 * Returns a word's background: a stripe for each head, as strong as the head's weight.
 *
 * @param {number[]} weights
 */
function stripes(weights) {
  if (!weights.length) return "";
  const heads = activeHeads();
  const stops = weights.map((share, number) => {
    // Never so strong that the word on it is hard to read.
    const strength = `calc(var(--strongest) * ${share.toFixed(3)})`;
    const tint = `color-mix(in srgb, ${color(heads[number])} ${strength}, transparent)`;
    return `${tint} ${(100 * number) / weights.length}% ${(100 * (number + 1)) / weights.length}%`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}

/**
 * @param {Place | null} chosen
 * @param {number[][]} weights
 */
function report(chosen, weights) {
  if (!activeHeads().length) {
    byId("report").textContent = "No head is switched on.";
    return;
  }
  if (!chosen) {
    byId("report").textContent =
      "Point at a word, tap it or go to it with Tab: only its lines are shown, with their weights.";
    return;
  }
  const isQuery = chosen.side === "reads";
  const others = view()[otherSide(chosen.side)];
  const strongest = weights
    .map((headWeights, index) => ({ average: mean(headWeights), text: others[index].text }))
    .filter(({ average }) => average >= 0.005)
    .sort((one, other) => other.average - one.average)
    .slice(0, 5);
  const parts = strongest.flatMap(({ average, text }, index) => [
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
  byId("report").replaceChildren(
    element("bdi", { textContent: view()[chosen.side][chosen.index].text }),
    verb,
    ...(parts.length ? parts : [" nothing"]),
    element("span", {
      className: "weight",
      textContent: activeHeads().length > 1 ? " (mean of the heads shown)" : "",
    }),
  );
}
