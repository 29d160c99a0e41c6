"""Outputs of constrained parsing are trees over the words, and the best of them.

The reference tries all sequences of symbols, and keeps those that a stack accepts.
"""

import itertools
import math
import random

import numpy as np
import pytest
import table_search
import tensorflow as tf
from refusals import refused
from toy_treebank import random_tree
from upper_case import UpperCase

from t2t_keras.bin import t2t_decoder
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.beam import BeamSearch
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.search import Constraints, Limits
from t2t_keras.decoding.translator import Translator
from t2t_keras.lab.tree_grammar import TreeGrammar
from t2t_keras.lab.whole_trees import tag_dictionary, whole_trees
from t2t_keras.parsing.trees import bracketed, leaves, parsed, rebuilt, symbols, words
from t2t_keras.text.tokenizer import SentencePieceTokenizer

END = "</s>"


def is_tree(output, num_words, lexicon=None, max_openings=8):
    """Whether symbols close what they open, nothing empty, and have the words' tags in order."""
    open_labels, tags, previous = [], [], ""
    if "o" * (max_openings + 1) in "".join("o" if s[-1] != ")" else "-" for s in output):
        return False
    for symbol in output:
        if symbol.startswith("/"):
            if not open_labels or open_labels.pop() != symbol[1:-1] or previous == "open":
                return False
            previous = "closed"
        elif symbol.endswith(")"):
            tags.append(symbol[1:-1])
            previous = "tag"
        else:
            open_labels.append(symbol[1:])
            previous = "open"
    tags_fit = all(tag in (lexicon or {}).get(i, {tag}) for i, tag in enumerate(tags))
    return not open_labels and len(tags) == num_words and tags_fit


def trees_over(alphabet, num_words, max_length, max_openings=8):
    """All trees of at most `max_length` symbols, the end included."""
    return {
        (*output, END)
        for length in range(max_length)
        for output in itertools.product(alphabet, repeat=length)
        if is_tree(output, num_words, max_openings=max_openings)
    }


class Pieces:
    """A vocabulary of these pieces; a source of n words is n times the id of "w"."""

    def __init__(self, *pieces):
        self.names = ["<pad>", END, *pieces, "w"]
        self.vocab_size, self.source = len(self.names), self

    def vocabulary(self):
        return {f"\u2581{name}": i for i, name in enumerate(self.names)}

    def decode(self, sequences):
        return [" ".join("w" * sum(i == len(self.names) - 1 for i in ids)) for ids in sequences]

    def sources(self, *num_words):
        rows = np.zeros([len(num_words), max(num_words) + 1], np.int32)
        for row, count in zip(rows, num_words, strict=True):
            row[:count], row[count] = len(self.names) - 1, 1
        return rows


def allowed_after(grammar, pieces, prefixes, num_words, max_length):
    """The names of the symbols that may follow each prefix."""
    live = np.zeros([1, len(prefixes), max_length], np.int32)
    for row, prefix in zip(live[0], prefixes, strict=True):
        row[: len(prefix)] = [pieces.names.index(name) for name in prefix]
    data = grammar.start(tf.constant(pieces.sources(num_words)))
    logits = tf.zeros([1, len(prefixes), pieces.vocab_size])
    limits = Limits(tf.constant([max_length]), *[None] * 3)
    index = tf.constant(len(prefixes[0]))
    masked = grammar.mask(logits, tf.constant(live), index, limits, data).numpy()[0]
    return [{pieces.names[i] for i in np.flatnonzero(np.isfinite(row))} for row in masked]


@pytest.mark.parametrize(
    ("alphabet", "num_words", "max_length", "max_openings"),
    [
        (("(A", "/A)", "(B", "/B)", "(x)"), 1, 7, 8),
        (("(A", "/A)", "(B", "/B)", "(x)"), 2, 8, 8),
        (("(A", "/A)", "(x)", "(y)"), 3, 8, 8),
        (("(A", "/A)", "(x)"), 2, 9, 1),
        (("(A", "/A)", "(x)"), 2, 9, 2),
        (("(x)", "(y)"), 3, 4, 8),
    ],
)
def test_what_may_follow_is_what_some_tree_has(alphabet, num_words, max_length, max_openings):
    pieces = Pieces(*alphabet)
    language = trees_over(alphabet, num_words, max_length, max_openings)
    grammar = TreeGrammar(pieces, max_openings=max_openings)
    for length in range(max_length):
        following = {}
        for output in language:
            if len(output) > length:
                following.setdefault(output[:length], set()).add(output[length])
        prefixes = list(following)
        if prefixes:
            actual = allowed_after(grammar, pieces, prefixes, num_words, max_length)
            assert actual == list(following.values())


def test_a_lexicon_limits_the_tags_of_a_word():
    pieces = Pieces("(A", "/A)", "(x)", "(y)", "(z)")
    grammar = TreeGrammar(pieces, {"w": {"x", "z", "unknown"}})
    [first] = allowed_after(grammar, pieces, [()], 2, 9)
    assert first == {"(A", "(x)", "(z)"}
    # No tag of the vocabulary is in it: nothing is known of the word.
    [first] = allowed_after(TreeGrammar(pieces, {"w": {"unknown"}}), pieces, [()], 2, 9)
    assert first == {"(A", "(x)", "(y)", "(z)"}


def test_labels_that_cannot_be_closed_are_not_opened():
    pieces = Pieces("(A", "(B", "/B)", "/C)", "(x)")
    [first] = allowed_after(TreeGrammar(pieces), pieces, [()], 1, 9)
    assert first == {"(B", "(x)"}


def test_a_prefix_that_is_no_tree_comes_to_an_end():
    pieces = Pieces("(A", "/A)", "(B", "/B)", "(x)")
    for prefix, following in {
        ("(x)", "(x)"): {END},
        ("(A", "(x)", "(x)"): {"/A)"},
        ("(x)", "(A"): {"/A)"},
        ("/A)", "(x)"): {END},
        ("(A", "/B)"): {"(A", "(B", "(x)"},
    }.items():
        assert allowed_after(TreeGrammar(pieces), pieces, [prefix], 1, 9) == [following]


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("beam_size", [1, 3, 200])
def test_the_search_finds_the_best_of_all_trees(beam_size, xla):
    alphabet = ("(A", "/A)", "(B", "/B)", "(x)")
    pieces, longest = Pieces(*alphabet), 6
    num_words = [1, 2, 3, 5] * 3
    max_lengths = [6, 6, 5, 6] * 3
    tables = table_search.random_logits(5, len(num_words), pieces.vocab_size, longest)
    constraints = Constraints(grammars=(TreeGrammar(pieces),))
    rule = BeamSearch(beam_size, 0.6, num_hypotheses=beam_size, constraints=constraints)
    search = table_search.Search(rule, pieces.vocab_size, xla, sources=pieces.sources(*num_words))
    for actual, table, count, max_length in zip(
        search(tables, max_lengths), tables, num_words, max_lengths, strict=True
    ):
        language = {
            tuple(map(pieces.names.index, output))
            for output in trees_over(alphabet, count, max_length)
        }

        def following(before, table=table, language=language):
            log_probs = table_search.following(table, before)
            possible = {
                output[len(before)] for output in language if output[: len(before)] == before
            }
            log_probs[[i for i in range(pieces.vocab_size) if i not in possible]] = -np.inf
            return log_probs

        expected = table_search.plain_beam_search(following, max_length, 0.6, beam_size)
        expected = [hypothesis for hypothesis in expected if hypothesis[1] > -math.inf]
        actual = [hypothesis for hypothesis in actual if hypothesis[1] > -math.inf]
        assert [ids for ids, _ in actual] == [ids for ids, _ in expected][:beam_size]
        scores = [score for _, score in expected][:beam_size]
        np.testing.assert_allclose([score for _, score in actual], scores, atol=1e-5)
        assert {ids for ids, _ in actual} <= language
        if beam_size == 200:
            assert {ids for ids, _ in actual} == language


SENTENCES = [
    "the dog sees",
    "a-b-c (unheard-of) words , more than pieces",
    "",
    "cat",
    "the red house near the cat sleeps",
]


@pytest.fixture(scope="module")
def symbol_tokenizer():
    labels, tags = ("S", "NP", "-LRB-"), ("DT", "NN", ",")
    names = [
        *(f"({label}" for label in labels), *(f"/{label})" for label in labels),
        *(f"({tag})" for tag in tags),
    ]  # fmt: skip
    lines = ["the dog sees near red house cat sleeps ,"] * 20
    return SentencePieceTokenizer.train(lines, vocab_size=300, symbols=names)


@pytest.fixture(scope="module")
def make(random_model, symbol_tokenizer):
    """make(value, **settings): a translator with random weights and --whole_trees=value."""
    model = random_model(3, symbol_tokenizer.vocab_size)
    problem = make_problem("parsing_trees").with_vocabulary(symbol_tokenizer)

    def make(value="words", **settings):
        config = DecodeConfig(**{"beam_size": 3, "extra_length": 9, "alpha": 0.3} | settings)
        translator = Translator(model, symbol_tokenizer, config, problem=problem)
        return whole_trees(value)(translator) if value else translator

    return make


@pytest.mark.parametrize(
    "settings",
    [
        dict(return_beams=True),
        dict(beam_size=1),
        dict(samples=5, return_beams=True, temperature=3.0),
        dict(return_beams=True, xla=True),
    ],
    ids=str,
)
def test_all_outputs_are_trees_over_the_words(make, settings):
    translator = make(**settings)
    hypotheses = 0
    for line, translation in zip(SENTENCES, translator.translate(SENTENCES), strict=True):
        for hypothesis in translation.hypotheses:
            output = hypothesis.text.split()
            assert is_tree(output, len(line.split()))
            _, repairs = rebuilt(output, line.split(), translator.problem.known_symbols)
            assert not repairs
            hypotheses += 1
    assert hypotheses == 4 * len(translator.translate(["cat"])[0].hypotheses)
    # Without the grammar, none is.
    plain = make("", **settings).translate(SENTENCES)
    assert not any(
        is_tree(translation.text.split(), len(line.split()))
        for line, translation in zip(SENTENCES, plain, strict=True)
        if line
    )


def test_other_batches_and_xla_give_the_same(make):
    expected = make(return_beams=True).translate(SENTENCES)
    for settings in (dict(batch_tokens=1), dict(xla=True)):
        actual = make(return_beams=True, **settings).translate(SENTENCES)
        assert [translation.text for translation in actual] == [
            translation.text for translation in expected
        ]
        scores = [translation.score for translation in expected]
        assert [translation.score for translation in actual] == pytest.approx(scores, abs=1e-4)


def test_tags_belong_to_the_words_in_order(make):
    [translation] = make().translate(["the dog sees"])
    output = translation.text.split()
    tags = [i for i, symbol in enumerate(output) if is_tree([symbol], 1)]
    assert list(translation.alignment) == list(enumerate(tags))
    [tree] = parsed(translation.postprocessed)
    assert words(tree) == ["the", "dog", "sees"]
    assert symbols(tree) == output


def test_a_sentence_that_is_cut_has_the_tags_of_its_beginning(make, symbol_tokenizer):
    line = "the dog sees the red house"
    [ids] = symbol_tokenizer.encode(["the dog sees"])
    [translation] = make(max_input_length=len(ids)).translate([line])
    assert translation.cut > 0
    output = translation.text.split()
    assert is_tree(output, 3)
    tags = [symbol[1:-1] for symbol in output if is_tree([symbol], 1)]
    tagged = leaves(parsed(translation.postprocessed)[0])
    assert [leaf.word for leaf in tagged] == line.split()
    assert [leaf.label for leaf in tagged] == [*tags, *["XX"] * 3]


def test_prefixes_and_short_outputs(make):
    [begun] = make().translate(["the dog sees"], ["(NP (NN) (S"])
    assert begun.text.startswith("(NP (NN) (S ")
    assert is_tree(begun.text.split(), 3)
    # The maximum length is that of three symbols.
    [short] = make(max_length=4).translate(["the dog sees near"])
    assert len(short.text.split()) == 3
    assert is_tree(short.text.split(), 3)


def test_the_dictionary_has_the_tags_of_frequent_words(tmp_path):
    path = tmp_path / "trees"
    often = "(S (NP (DT the) (NN-1 dog)) (-NONE- *)) " * 4
    path.write_text(f"{often}\n( (S (NN the) (VB dog) (JJ red)) )\n(S (NN *) (NN *))\n" + "(S)\n")
    assert tag_dictionary(path) == {"the": {"DT", "NN"}, "dog": {"NN", "VB"}}


def test_the_search_obeys_a_dictionary(make, write):
    path = write("trees", "(S (NN the)) " * 4 + "(S (DT the)) (NP (, dog))\n" + "(S (, dog)) " * 4)
    allowed = {0: {"NN", "DT"}, 1: {","}}
    translator = make(str(path), return_beams=True)
    [translation] = translator.translate(["the dog sees"])
    for hypothesis in translation.hypotheses:
        assert is_tree(hypothesis.text.split(), 3, allowed)
    [stage] = translator.stages
    assert len(stage.settings()["lexicon"]) == 64
    assert make().stages[0].settings() == {"lexicon": ""}


def test_what_is_refused(make, model, tokenizer, tmp_path, write):
    with refused("not_read", "wrods"):
        whole_trees(str(tmp_path / "wrods"))
    with refused("bad_tree", "lines:1"):
        whole_trees(str(write("lines", "no tree")))
    with refused("no_text", "few", "5", "words"):
        whole_trees(str(write("few", "(S (NN dog))\n")))
    with refused("conflicting_settings", "min_length=2"):
        make(min_length=2)
    with refused("other_vocabulary", "(NN)", "--whole_trees"):
        whole_trees("words")(Translator(model, tokenizer))
    parser = make("")
    engine = UpperCase().engine
    other = Translator(engine, parser.tokenizer, engine.config, problem=parser.problem)
    with refused("not_supported", "keras"):
        whole_trees("words")(other)


def test_the_decoder_has_a_flag_for_it(save_random_run, tmp_path, capsys):
    generator = random.Random(2)
    for split, count in (("train", 30), ("dev", 4)):
        trees = [bracketed(random_tree(generator)) for _ in range(count)]
        (tmp_path / f"{split}.trees").write_text("".join(f"{tree}\n" for tree in trees))
    problem = make_problem("parsing_trees", "vocab_size=340")
    generate(problem, tmp_path / "data", tmp_path)
    run = save_random_run(problem, tmp_path, steps=(10,))
    settings = "--decode_hparams=beam_size=2,extra_length=5"
    for value in ("words", tmp_path / "train.trees"):
        output = tmp_path / "out"
        t2t_decoder.run(
            ["t2t-decoder", f"--output_dir={run}", settings, f"--whole_trees={value}",
             f"--decode_to_file={output}"]
        )  # fmt: skip
        assert "repaired: 0.00% (0 of 4 outputs)" in capsys.readouterr().out
        output.unlink()
