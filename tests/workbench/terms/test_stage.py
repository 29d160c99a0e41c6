"""Glossaries are kept by hints or by force, on every engine."""

import numpy as np
import pytest
from refusals import refused

from t2t_keras.data.problem import Problem, make_problem
from t2t_keras.decoding.confidence import confidences
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import Engine, Output
from t2t_keras.decoding.translator import Translator
from t2t_keras.serving.formats import write_format
from t2t_keras.text.alignment import count_words
from t2t_keras.workbench.placeholders.stage import PlaceholderStage
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import HintedLine, TermStage, with_terms
from t2t_keras.workbench.terms.uses import find_uses

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
    problem = make_problem("translate_ende_toy")
    return Translator(model, tokenizer, DecodeConfig(**SETTINGS), problem=problem)


@pytest.fixture(scope="module")
def translators(plain, tmp_path_factory):
    folder = write_format("ctranslate2", plain, tmp_path_factory.mktemp("export") / "1", "float32")
    other = Translator.from_run(folder, None, SETTINGS, engine="ctranslate2")
    return {"keras": plain, "ctranslate2": other}


def kinds(translation):
    return [use.kind for use in translation.notes.get("terms", ())]


@pytest.mark.parametrize("engine", ["keras", "ctranslate2"])
def test_missing_terms_are_forced(translators, engine):
    translator = translators[engine]
    free = translator.translate(LINES)
    translations = with_terms(translator, GLOSSARY).translate(LINES)
    assert [len(kinds(translation)) for translation in translations] == [2, 0, 0, 4, 1, 1]
    for before, translation in zip(free, translations, strict=True):
        assert set(kinds(translation)) <= {"exact", "inflected"}
        for use in translation.notes.get("terms", ()):
            assert use.kind != "exact" or use.match.term.target in translation.text.lower()
        if not translation.notes:
            assert translation == before
        assert translation.text == translation.postprocessed
    assert translations[3].text.count("tree") >= 2, "each occurrence has its own"
    # The score is what the model says of the text.
    whole = translations[0]
    [score] = translator.score(LINES[:1], [whole.text])
    penalty = ((5 + len(score.token_log_probs)) / 6) ** translator.config.alpha
    assert whole.score == whole.hypotheses[0].score
    assert whole.score == pytest.approx(score.log_prob / penalty, abs=1e-3)


def test_prefixes_stay(plain):
    prefixes = ["red house", "", "", "dog", "tree house", "the tree"]
    translations = with_terms(plain, GLOSSARY).translate(LINES, prefixes)
    assert all(
        translation.text.startswith(prefixes[i]) for i, translation in enumerate(translations)
    )
    assert "missing" not in [kind for translation in translations for kind in kinds(translation)]


def test_sentences_of_a_long_line(plain, tokenizer):
    config = DecodeConfig(**SETTINGS | dict(max_input_length=12, split_long=True))
    translator = Translator(plain.engine, tokenizer, config)
    line = "The dog sleeps. A man sees the tree. The dog eats a house."
    [translation] = with_terms(translator, GLOSSARY).translate([line], ["a tree"])
    assert [part.startswith("a tree") for part in translation.parts] == [True, False, False]
    assert " ".join(translation.parts) == translation.text
    assert all(part.split().count("tree") for part in translation.parts[::2])
    assert kinds(translation)[0] == "exact"


def test_a_glossary_replaces_another_and_no_other_stage(plain):
    translator = plain.with_stages(PlaceholderStage())
    other = Glossary.of([("man", "tree")])
    stages = with_terms(with_terms(translator, GLOSSARY), other).stages
    assert [stage.name for stage in stages] == ["placeholders", "terms"]
    assert stages[1].glossary is other
    assert with_terms(translator, None) is translator


def hinting(plain, **settings):
    """The translator with hints, by the same engine."""
    config = DecodeConfig(**SETTINGS, **settings)
    problem = Problem(transforms=("terms",))
    return with_terms(Translator(plain.engine, plain.tokenizer, config, problem=problem), GLOSSARY)


def test_hints(plain):
    soft = hinting(plain)
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
    translations = soft.translate(LINES)
    expected = plain.translate(hinted)
    assert [translation.text for translation in translations] == [
        translation.text for translation in expected
    ]
    assert [line.text for line in soft.prepare(LINES)] == hinted
    for line, pairs, translation in zip(
        LINES, soft.align(LINES, translations), translations, strict=True
    ):
        assert {target for _, target in pairs} == set(range(count_words(translation.text)))
        assert all(source < count_words(line) for source, _ in pairs)
    assert "missing" in [kind for translation in translations for kind in kinds(translation)]
    # Hints that a user writes are not written twice.
    assert soft.translate(hinted[4:5])[0].text == translations[4].text


def test_hints_and_force(plain):
    both = hinting(plain, terms="hard")
    translations = both.translate(LINES)
    assert both.prepare(LINES)[4].text == "the ⟪ dog ⟪ tree ⟫."
    assert "missing" not in [kind for translation in translations for kind in kinds(translation)]


def test_hints_need_a_model_that_takes_them(model, tokenizer):
    with refused("not_supported", "terms=soft", "terms=hard"):
        with_terms(Translator(model, tokenizer, DecodeConfig(terms="soft")), GLOSSARY)


class Aligned(Problem):
    """Aligns the third word of the source with the second of the translation."""

    pairs = ((2, 1),)

    def align(self, target, weights):
        rows, columns = weights.shape
        return [(s, t) for s, t in self.pairs if s < columns and t < rows]


class Scripted(Engine):
    """Translates to a text, and ends every beginning as it stands, scored by what it has."""

    def __init__(self, tokenizer, text, scores, of_full_texts=-9.0, config=None):
        self.tokenizer, self.text = tokenizer, text
        self.config, self._scores = config or DecodeConfig(beam_size=1), scores
        self._of_full_texts, self.searches = of_full_texts, []

    def log_probs(self, sources, targets):
        """Whole translations are hardly likely, unless it is said of each of their pieces."""
        return [
            (number, np.full(len(ids), self._of_full_texts)) for number, ids in enumerate(targets)
        ]

    def cross_attention(self, sources, targets):
        return [
            (number, np.ones([len(ids), len(sources[number])], np.float32))
            for number, ids in enumerate(targets)
        ]

    def written(self, begin):
        return begin

    def outputs(self, sources, prefixes, numbers):
        [[end]] = self.tokenizer.encode([""])
        assert not any(end in ids for ids in prefixes), "what begins a translation has no end"
        self.searches.append(len(sources))
        texts = [self.written(begin) for begin in self.tokenizer.decode(prefixes)]
        scores = [next((s for words, s in self._scores.items() if words in t), -9.0) for t in texts]
        actual = [
            (text, s) if text else (self.text, -0.1) for text, s in zip(texts, scores, strict=True)
        ]
        return [[Output(self.tokenizer.encode([text])[0], score)] for text, score in actual]

    def check_attention(self):
        raise NotImplementedError

    attention = next_symbols = check_attention


def forced(engine, line, glossary=GLOSSARY, problem=None):
    translator = Translator(engine, engine.tokenizer, engine.config, problem=problem or Aligned())
    [translation] = with_terms(translator, glossary).translate([line])
    return translation


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # The likeliest that has the term and the placeholder: "ein tree" is likelier, but lacks it.
        ({"ein Katze": -8.0, "ein tree": -1.0}, "ein tree %s"),
        ({"ein Katze tree %s": -1.0}, "ein Katze tree %s"),
    ],
)
def test_the_likeliest_that_breaks_no_placeholder(tokenizer, scores, expected):
    actual = forced(Scripted(tokenizer, "ein Katze %s", scores), "a red dog %s")
    assert (actual.text, kinds(actual)) == (expected, ["exact"])


@pytest.mark.parametrize(
    ("text", "expected", "kind"),
    [("ein trees hier", "ein trees hier", "inflected"), ("ein so trees", "ein tree", "exact")],
)
def test_another_form_counts_where_the_source_is_aligned(tokenizer, text, expected, kind):
    actual = forced(Scripted(tokenizer, text, {}), "a red dog")
    assert (actual.text, kinds(actual)) == (expected, [kind])


@pytest.mark.parametrize(("room", "is_scored"), [(0, True), (-1, False)])
def test_a_whole_translation_is_scored_where_it_is_not_too_long(tokenizer, room, is_scored):
    length = len(tokenizer.encode(["ein tree %s"])[0])
    config = DecodeConfig(max_length=length + room)
    actual = forced(Scripted(tokenizer, "ein Katze %s", {}, -0.1, config), "a red dog %s")
    score = -0.1 * length / ((5 + length) / 6) ** 0.6
    assert (actual.text, actual.score) == ("ein tree %s", pytest.approx(score if is_scored else -9))


def test_a_term_is_tried_again_after_another(tokenizer):
    class Stubborn(Scripted):
        """Breaks what has "tree" without "big red"."""

        def written(self, begin):
            return f"{begin} %d" if "tree" in begin and "big red" not in begin else begin

    class Behind(Aligned):
        pairs = ((1, 1), (3, 0))

    engine = Stubborn(tokenizer, "a b", {}, config=DecodeConfig(max_length=1))
    assert kinds(forced(engine, "the dog is small", problem=Behind())) == ["exact", "exact"]


@pytest.mark.parametrize("count", [1, 12, 13, 40])
def test_a_line_has_a_bounded_number_of_searches(tokenizer, count):
    engine = Scripted(tokenizer, "ein", {}, config=DecodeConfig(beam_size=1, extra_length=200))
    actual = forced(engine, " ".join(["dog"] * count), Glossary.of([("dog", "tree")]))
    assert len(engine.searches) - 1 == kinds(actual).count("exact") == min(count, 12)
    assert kinds(actual).count("missing") == count - len(engine.searches) + 1


@pytest.mark.parametrize(
    ("translation", "expected"),
    [("a", 2), ("diese Datei", 1), ("Datei und Dateien", 0), ("Dateien Datei", 0)],
)
def test_a_word_is_of_one_term_only(translation, expected):
    source = "copy this ⟪ file ⟪ Datei ⟫ over that ⟪ file ⟪ Datei ⟫"
    line = HintedLine(source, Glossary.of([("file", "Datei")]))
    assert line.costs(source, [translation, "Datei Datei"]) == [expected, 0]
    # Words of a hint are no terms.
    source = "copy the ⟪ file ⟪ a file ⟫"
    assert HintedLine(source, Glossary.of([("file", "a file")])).costs(source, ["a file"]) == [0]


def test_report():
    lines = [("the small dog", "the small tree"), ("the dog", "x"), ("the dog", "y")]
    notes = [find_uses(line, GLOSSARY.matches(line), target) for line, target in lines]
    counts = {"terms exact": 1, "terms missing": 3}
    counts |= {"missing term small -> big red": 1, "missing term dog -> tree": 2}
    stage = TermStage(GLOSSARY)
    assert stage.counts(notes) == counts
    assert [list(stage.remarks(note)) for note in notes[:2]] == [
        ["(Missing: small -> big red)"],
        ["(Missing: dog -> tree)"],
    ]
    assert list(stage.report({})) == ["No term of the glossary is in the source."]
    some = {"terms missing": 1_000, "terms exact": 3_000, "examples": 5}
    some |= {"missing term a -> x": 1, "missing term b -> y": 1_000, "missing term c -> z": 1}
    shares = "3,000 exact (75.0%), 0 inflected (0.0%), 1,000 missing (25.0%)"
    assert list(stage.report(some)) == [
        f"Glossary terms: 4,000 in the source, {shares}",
        "  missing: b -> y (1,000 times)",
        "  missing: a -> x (1 times)",
        "  missing: c -> z (1 times)",
    ]
    many = {"terms missing": 12, **{f"missing term {i:02} -> x": 1 for i in range(12)}}
    assert list(stage.report(many))[-2:] == [
        "  missing: 09 -> x (1 times)",
        "  and 2 others",
    ]
    del many["missing term 10 -> x"], many["missing term 11 -> x"]
    assert list(stage.report(many))[-1] == "  missing: 09 -> x (1 times)"


def test_confidences_are_of_hinted_sources(plain):
    free = plain.translate(["the dog"])
    stage = TermStage(Glossary.of([("dog", "tree")]), supports_term_hints=True)
    [as_read] = confidences(plain.with_stages(stage), ["the dog"], free)
    [expected] = confidences(plain, ["the ⟪ dog ⟪ tree ⟫"], free)
    assert as_read == expected != confidences(plain, ["the dog"], free)[0]
