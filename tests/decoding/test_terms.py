"""Glossaries are kept by hints or by force, on every engine."""

import dataclasses

import numpy as np
import pytest
from refusals import refused

from t2t_keras import registry
from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.source_text import Source
from t2t_keras.decoding.terms import keep_terms, number_missing, term_counts, terms_report
from t2t_keras.decoding.translation import Hypothesis, Translation
from t2t_keras.decoding.translator import Translator
from t2t_keras.serving.export.formats import write_format
from t2t_keras.text.alignment import count_words
from t2t_keras.text.glossary import Glossary
from t2t_keras.text.placeholders.symbols import Shield
from t2t_keras.text.terms.uses import find_uses

GLOSSARY = Glossary.of(
    [("dog", "tree"), ("small", "big red"), ("woman", "kätzchen"), ("eats", "%s")]
)
LINES = [
    "the small dog sleeps",
    "",
    "a man",
    "the woman sees the small dog and the dog",
    "the dog.",
    "dog",
]
SETTINGS = dict(beam_size=2, extra_length=30, max_input_length=30, return_beams=True)


@pytest.fixture(scope="module")
def model(tokenizer, random_model):
    """The later, the likelier is the end: outputs have it before they must."""
    options = dict(d_model=16, pre_norm=True, positions="learned", max_positions=60)
    model = random_model(1, tokenizer.vocab_size, **options)
    matrix = model.embedding.table.embeddings.numpy()
    matrix[[i for piece, i in tokenizer.vocabulary().items() if piece[0] != "▁" and i > 1]] = 0
    model.embedding.table.embeddings.assign(matrix)
    table, end = model.target_positions.table, model.embedding.table.embeddings[1]
    table.assign(table.numpy() + np.arange(60)[:, None] * end)
    return model


@pytest.fixture(scope="module")
def plain(model, tokenizer):
    problem = registry.problem("translate_ende_toy")
    return Translator(model, tokenizer, DecodeConfig(**SETTINGS), problem=problem)


@pytest.fixture(scope="module")
def translators(plain, tmp_path_factory):
    folder = write_format("ctranslate2", plain, tmp_path_factory.mktemp("export") / "1", "float32")
    other = Translator.from_run(folder, None, SETTINGS, engine="ctranslate2")
    return {"keras": plain, "ctranslate2": other}


def kinds(translation):
    return [use.kind for use in translation.terms]


@pytest.mark.parametrize("engine", ["keras", "ctranslate2"])
def test_missing_terms_are_forced(translators, engine):
    translator = translators[engine]
    free = translator.translate(LINES)
    found = translator.translate(LINES, glossary=GLOSSARY)
    assert [len(each.terms) for each in found] == [2, 0, 0, 4, 1, 1]
    for before, translation in zip(free, found, strict=True):
        assert set(kinds(translation)) <= {"exact", "inflected"}
        for use in translation.terms:
            assert use.kind != "exact" or use.match.term.target in translation.text.lower()
        if not translation.terms:
            assert translation == before
        assert translation.text == translation.postprocessed
        assert translation.hinted == ""
    assert found[3].text.count("tree") >= 2, "each occurrence has its own"
    # The score is what the model says of the text.
    whole = found[0]
    [score] = translator.score(LINES[:1], [whole.text])
    penalty = ((5 + len(score.token_log_probs)) / 6) ** translator.config.alpha
    assert whole.score == whole.hypotheses[0].score
    assert whole.score == pytest.approx(score.log_prob / penalty, abs=1e-3)


def test_prefixes_stay(plain):
    prefixes = ["red house", "", "", "dog", "tree house", "the tree"]
    found = plain.translate(LINES, prefixes, glossary=GLOSSARY)
    assert all(each.text.startswith(prefixes[i]) for i, each in enumerate(found))
    assert "missing" not in [kind for each in found for kind in kinds(each)]


def test_sentences_of_a_long_line(model, tokenizer):
    config = DecodeConfig(max_input_length=12, split_long=True, extra_length=30, beam_size=2)
    translator = Translator(model, tokenizer, config)
    line = "The dog sleeps. A man sees the tree. The dog eats a house."
    [found] = translator.translate([line], ["a tree"], glossary=GLOSSARY)
    assert [part.startswith("a tree") for part in found.parts] == [True, False, False]
    assert " ".join(found.parts) == found.text
    assert all(part.split().count("tree") for part in found.parts[::2])
    assert kinds(found)[0] == "exact"


class Hinted(Problem):
    takes_hints = True


def test_hints(model, tokenizer):
    config = DecodeConfig(beam_size=2, extra_length=20, max_input_length=40)
    soft = Translator(model, tokenizer, config, problem=Hinted())
    hinted = [
        "the ⟪ small ⟪ big red ⟫ ⟪ dog ⟪ tree ⟫ sleeps",
        "",
        "a man",
        (
            "the ⟪ woman ⟪ kätzchen ⟫ sees the ⟪ small ⟪ big red ⟫ ⟪ dog ⟪ tree ⟫ "
            "and the ⟪ dog ⟪ tree ⟫"
        ),
        "the ⟪ dog ⟪ tree ⟫.",
        "⟪ dog ⟪ tree ⟫",
    ]
    found = soft.translate(LINES, glossary=GLOSSARY)
    expected = Translator(model, tokenizer, config).translate(hinted)
    assert [each.text for each in found] == [each.text for each in expected]
    assert [each.hinted for each in found] == [
        text if text != line else "" for text, line in zip(hinted, LINES, strict=True)
    ]
    for line, pairs, translation in zip(LINES, soft.align(LINES, found), found, strict=True):
        assert {target for _, target in pairs} == set(range(count_words(translation.text)))
        assert all(source < count_words(line) for source, _ in pairs)
    assert "missing" in [kind for each in found for kind in kinds(each)]
    # Hints that a user writes are not written twice.
    assert soft.translate(hinted[4:5], glossary=GLOSSARY)[0].text == found[4].text


def test_hints_and_force(model, tokenizer):
    config = DecodeConfig(beam_size=2, extra_length=30, max_input_length=30, terms="hard")
    both = Translator(model, tokenizer, config, problem=Hinted())
    found = both.translate(LINES, glossary=GLOSSARY)
    assert found[4].hinted == "the ⟪ dog ⟪ tree ⟫."
    assert "missing" not in [kind for each in found for kind in kinds(each)]


def test_hints_need_a_model_that_takes_them(model, tokenizer):
    with refused("not_supported", "terms=soft", "terms=hard"):
        Translator(model, tokenizer, DecodeConfig(terms="soft")).translate(["a"], glossary=GLOSSARY)


class Scripted:
    """A translator that ends every beginning as it stands, scored by what it has."""

    def __init__(self, tokenizer, scores, of_wholes=-9.0, config=None):
        self.tokenizer, self.problem, self.config = tokenizer, Problem(), config or DecodeConfig()
        self._scores, self._of_wholes, self.engine = scores, of_wholes, self

    def log_probs(self, sources, targets):
        """Whole translations are hardly likely, unless it is said of each of their pieces."""
        return [(number, np.full(len(ids), self._of_wholes)) for number, ids in enumerate(targets)]

    def align_as_seen(self, sources, translations):
        return [[(2, 1)] for _ in sources]

    def search_sources(self, sources, prefixes):
        [[end]] = self.tokenizer.encode([""])
        assert not any(end in ids for ids in prefixes), "what begins a translation has no end"
        texts = self.tokenizer.decode(prefixes)
        scores = [next((s for each, s in self._scores.items() if each in t), -9.0) for t in texts]
        return [
            Translation(text, score, (Hypothesis(text, score),), (text,))
            for text, score in zip(texts, scores, strict=True)
        ]


def forced(translator, line, text, glossary=GLOSSARY):
    [ids, prefix] = translator.tokenizer.encode([line, ""])
    base = Translation(text, -0.1, (Hypothesis(text, -0.1),), (text,))
    source = Source(line, [ids], [0], 0, [line])
    [found] = keep_terms(translator, [source], [prefix[:-1]], [base], glossary)
    return found


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # The likeliest that has the term and the placeholder: "ein tree" is likelier, but lacks it.
        ({"ein Katze": -8.0, "ein tree": -1.0}, "ein tree %s"),
        ({"ein Katze tree %s": -1.0}, "ein Katze tree %s"),
    ],
)
def test_the_likeliest_that_breaks_no_placeholder(tokenizer, scores, expected):
    found = forced(Scripted(tokenizer, scores), "a red dog %s", "ein Katze %s")
    assert (found.text, kinds(found)) == (expected, ["exact"])


@pytest.mark.parametrize(
    ("text", "expected", "kind"),
    [("ein trees hier", "ein trees hier", "inflected"), ("ein so trees", "ein tree", "exact")],
)
def test_another_form_counts_where_the_source_is_aligned(tokenizer, text, expected, kind):
    found = forced(Scripted(tokenizer, {}), "a red dog", text)
    assert (found.text, kinds(found)) == (expected, [kind])


@pytest.mark.parametrize(("room", "is_scored"), [(0, True), (-1, False)])
def test_a_whole_translation_is_scored_where_it_is_not_too_long(tokenizer, room, is_scored):
    length = len(tokenizer.encode(["ein tree %s"])[0])
    translator = Scripted(tokenizer, {}, -0.1, DecodeConfig(max_length=length + room))
    found = forced(translator, "a red dog %s", "ein Katze %s")
    score = -0.1 * length / ((5 + length) / 6) ** 0.6
    assert (found.text, found.score) == ("ein tree %s", pytest.approx(score if is_scored else -9))


def test_a_term_is_tried_again_after_another(tokenizer):
    class Stubborn(Scripted):
        """Breaks what has "tree" without "big red", and translates from behind."""

        def align_as_seen(self, sources, translations):
            return [[(1, 1), (3, 0)] for _ in sources]

        def search_sources(self, sources, prefixes):
            found = super().search_sources(sources, prefixes)
            return [
                dataclasses.replace(each, parts=(each.text + " %d",))
                if "tree" in each.text and "big red" not in each.text
                else each
                for each in found
            ]

    translator = Stubborn(tokenizer, {}, config=DecodeConfig(max_length=1))
    assert kinds(forced(translator, "the dog is small", "a b")) == ["exact", "exact"]


def test_sentences_keep_their_pieces_and_add_up_what_is_broken(tokenizer):
    class Repaired(Scripted):
        def align_as_seen(self, sources, translations):
            return [[(2, 0)] for _ in sources]

        def search_sources(self, sources, prefixes, **options):
            if options:
                prefixes = [ids[:-1] for ids in self.tokenizer.encode(["ls x", ""])]
            found = super().search_sources(sources, prefixes)
            chosen = (3 if source.line == "ls a dog" else 1 for source in sources)
            return [dataclasses.replace(each, broken=1, chosen=next(chosen)) for each in found]

    texts = ["ls a dog", "so it is"]
    shield = Shield(" ".join(texts), ("ls",))
    source = Source(" ".join(texts), tokenizer.encode(texts), [0, 3], 0, texts, shield)
    base = Translation("x y", -0.1, (Hypothesis("x y", -0.1),), ("x", "y"))
    [found] = keep_terms(
        Repaired(tokenizer, {}), [source], [np.zeros(0, np.int32)], [base], GLOSSARY
    )
    assert (found.parts, found.broken, found.chosen) == (("ls tree", ""), 2, 3)


@pytest.mark.parametrize("count", [1, 12, 13, 40])
def test_a_line_has_a_bounded_number_of_searches(tokenizer, count):
    searches = []

    class Counting(Scripted):
        def search_sources(self, sources, prefixes):
            searches.append(len(sources))
            return super().search_sources(sources, prefixes)

    glossary = Glossary.of([("dog", "tree")])
    found = forced(Counting(tokenizer, {}), " ".join(["dog"] * count), "ein", glossary)
    assert len(searches) == kinds(found).count("exact") == min(count, 12)
    assert kinds(found).count("missing") == count - len(searches)


@pytest.mark.parametrize(
    ("translation", "expected"),
    [("a", 2), ("diese Datei", 1), ("Datei und Dateien", 0), ("Dateien Datei", 0)],
)
def test_a_word_is_of_one_term_only(translation, expected):
    source = "copy this ⟪ file ⟪ Datei ⟫ over that ⟪ file ⟪ Datei ⟫"
    assert number_missing(Glossary.of([("file", "Datei")]), source, translation) == expected
    # Words of a hint are no terms.
    glossary = Glossary.of([("file", "a file")])
    assert number_missing(glossary, "copy the ⟪ file ⟪ a file ⟫", "a file") == 0


def test_report():
    lines = [("the small dog", "the small tree"), ("the dog", "x"), ("the dog", "y")]
    found = [
        Translation(target, 0.0, terms=tuple(find_uses(line, GLOSSARY.matches(line), target)))
        for line, target in lines
    ]
    counts = {"terms exact": 1, "terms missing": 3}
    counts |= {"missing term small -> big red": 1, "missing term dog -> tree": 2}
    assert term_counts(found) == counts
    assert terms_report({}) == "No term of the glossary is in the source."
    some = {"terms missing": 1_000, "terms exact": 3_000, "examples": 5}
    some |= {"missing term a -> x": 1, "missing term b -> y": 1_000, "missing term c -> z": 1}
    shares = "3,000 exact (75.0%), 0 inflected (0.0%), 1,000 missing (25.0%)"
    assert terms_report(some).split("\n") == [
        f"4,000 terms of the glossary: {shares}",
        "  missing: b -> y (1,000 of its places)",
        "  missing: a -> x (1 of its places)",
        "  missing: c -> z (1 of its places)",
    ]
    many = {"terms missing": 12, **{f"missing term {i:02} -> x": 1 for i in range(12)}}
    assert terms_report(many).endswith("missing: 09 -> x (1 of its places)\n  and 2 others")
    del many["missing term 10 -> x"], many["missing term 11 -> x"]
    assert terms_report(many).endswith("missing: 09 -> x (1 of its places)")
