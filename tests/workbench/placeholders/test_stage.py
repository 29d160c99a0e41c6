"""The choice of a hypothesis by its placeholders, and the repair of the best."""

import dataclasses
import random
import re

import numpy as np
import pytest
from counted_work import work_of

from t2t_keras.data.problem import Problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engine import Engine, Output
from t2t_keras.decoding.file_job import translate_file
from t2t_keras.decoding.translator import Translator
from t2t_keras.problems.parallel_text import ParallelText
from t2t_keras.text.tokenizer import SentencePieceTokenizer
from t2t_keras.workbench.markup.translator import translate_markup
from t2t_keras.workbench.placeholders import is_reordered, missing
from t2t_keras.workbench.placeholders.finding import SYMBOLS
from t2t_keras.workbench.placeholders.stage import count_wrong, repair
from t2t_keras.workbench.terms.glossary import Glossary
from t2t_keras.workbench.terms.stage import with_terms


class Scripted(Engine):
    """Its hypotheses are made of the source's text by functions; its attention is diagonal."""

    def __init__(self, tokenizer, config, changes):
        self._tokenizer, self.config, self._changes = tokenizer, config, changes
        self.searched = []

    def with_all_hypotheses(self):
        actual = Scripted(self._tokenizer, self.config, self._changes)
        actual.config = dataclasses.replace(self.config, return_beams=True)
        actual.searched = self.searched
        return actual

    def outputs(self, sources, prefixes, numbers):
        texts = self._tokenizer.decode(sources)
        self.searched += texts
        changes = self._changes[: self.config.num_hypotheses]
        return [
            [
                Output(ids, -float(rank))
                for rank, ids in enumerate(self._tokenizer.encode([c(text) for c in changes]))
            ]
            for text in texts
        ]

    def cross_attention(self, sources, targets):
        for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
            distance = np.arange(len(target))[:, None] - np.arange(len(source))
            yield number, np.exp(-np.abs(distance)).astype(np.float32)

    def log_probs(self, sources, targets):
        raise NotImplementedError

    def check_attention(self):
        raise NotImplementedError

    attention = next_symbols = log_probs


@pytest.fixture(scope="module")
def with_symbols():
    """A vocabulary with symbols for placeholders."""
    lines = ["open the file now. save it"] * 20
    return SentencePieceTokenizer.train(lines, vocab_size=330, symbols=SYMBOLS)


def translator(tokenizer, *changes, problem=None, **settings):
    config = DecodeConfig(**{"beam_size": 4, "check_placeholders": True} | settings)
    return Translator(Scripted(tokenizer, config, changes), tokenizer, config, problem=problem)


def changed(old, new):
    return lambda text: text.replace(old, new)


def test_with_hints_the_hypothesis_with_most_terms_comes_first(tokenizer):
    def written(text):
        return re.sub("⟪ .*? ⟪ (.*?) ⟫", r"\1", text)

    # The best lacks both terms, the next has another form of one, the others have both.
    changes = (
        lambda text: "a",
        lambda text: "datei",
        lambda text: written(text).replace(" %s", ""),
        lambda text: f"x {written(text)}",
    )
    glossary, problem = (
        Glossary.of([("file", "datein"), ("now", "jetzt")]),
        Problem(transforms=("terms",)),
    )
    hinted = with_terms(translator(tokenizer, *changes, problem=problem), glossary)
    translations = hinted.translate(["open the file now", "open it now %s", "open it"])
    assert translations[0].text == "open the datein jetzt"
    # A placeholder counts for more than a term.
    assert translations[1].text == "x open it jetzt %s"
    # Without a term it is the best.
    assert translations[2].text == "a"
    assert [len(translation.hypotheses) for translation in translations] == [1, 1, 1]
    # Of samples, the others stay in the order of their draws.
    drawn = translator(tokenizer, *changes, problem=problem, samples=3, return_beams=True)
    [translation] = with_terms(drawn, glossary).translate(["open the file now"])
    assert [hypothesis.text for hypothesis in translation.hypotheses[1:]] == ["a", "datei"]


def test_the_next_hypothesis_is_taken_where_the_best_is_broken(tokenizer):
    changes = changed("%s", "%d"), changed("{a}", ""), str.upper, str
    ours = translator(tokenizer, *changes)
    lines = ["open %s now", "the {a} file", "no placeholder", "%s {a} b"]
    translations = ours.translate(lines)
    assert [translation.text for translation in translations] == [
        "open %s now",
        "the {a} file",
        lines[2],
        lines[3],
    ]
    assert [(translation.rank, translation.notes) for translation in translations] == [
        (1, {}),
        (0, {}),
        (0, {}),
        (3, {}),
    ]
    assert [translation.score for translation in translations] == [-1, 0, 0, -3]
    expected = sorted([*lines, lines[0], lines[3]])
    assert sorted(ours.engine.searched) == expected, "only broken ones once more"
    assert all(len(translation.hypotheses) == 1 for translation in translations)


def test_the_best_is_repaired_where_all_are_broken(tokenizer):
    ours = translator(tokenizer, changed(" %s", ""), str.upper, return_beams=True)
    [translation] = ours.translate(["open %s now"])
    assert (translation.text, translation.notes, translation.rank) == (
        "open now %s",
        {"placeholders": 1},
        0,
    )
    assert [hypothesis.text for hypothesis in translation.hypotheses] == [
        "open now %s",
        "OPEN %s NOW",
    ]
    unchecked = translator(tokenizer, changed(" %s", ""), check_placeholders=False)
    assert unchecked.translate(["open %s now"])[0].text == "open now"


def test_unchecked_placeholders_that_the_model_lost_stay_lost(with_symbols):
    ours = translator(
        with_symbols,
        lambda text: re.sub(f"[{SYMBOLS[0]}-{SYMBOLS[-1]}] ?", "", text),
        problem=ParallelText(transforms=("placeholders",)),
        check_placeholders=False,
    )
    assert ours.translate(["open %s now"])[0].text == "open now"


def test_markup_says_what_was_done_to_all_its_sentences(tokenizer):
    page = "<p>open %s now<p>the <i>%s</i> file<p>save it"
    [translation] = translate_markup(
        translator(tokenizer, changed("%s", "%d"), str), [page], "html"
    )
    assert (translation.text, translation.rank, translation.notes, translation.score) == (
        page,
        1,
        {},
        -2.0,
    )
    lossy = translator(tokenizer, changed("%s", ""), max_input_length=4)
    [actual] = translate_markup(lossy, [page], "html")
    plain = lossy.translate(["open %s now", "the %s file", "save it"])
    assert (actual.rank, actual.notes) == (0, {"placeholders": 2})
    assert (
        actual.cut
        == sum(translation.cut for translation in plain)
        > max(translation.cut for translation in plain)
    )


def test_prose_is_no_menu(tokenizer):
    lines = ["Set Max_size to 5.", "the _test folder", "Smith &Sons sell shoes", "_Open file"]
    ours = translator(tokenizer, str)
    assert [translation.text for translation in ours.translate(lines)] == lines
    assert sorted(ours.engine.searched) == sorted(lines)


def test_models_of_symbols(with_symbols):
    problem = ParallelText(transforms=("placeholders",))
    ours = translator(with_symbols, lambda text: f"now {text}", problem=problem)
    lines = ["open %s in 5 MB", "_Save {name}.", "the file", " "]
    translations = ours.translate(lines, ["", "now _Save {name}", "", ""])
    assert [translation.text for translation in translations] == [
        "now open %s in 5 MB",
        "now _Save {name}.",
        "now the file",
        "",
    ]
    assert translations[0].postprocessed == translations[0].text
    seen = ours.engine.searched
    assert not any(piece in text for text in seen for piece in ("%", "{", "MB"))
    # A symbol is one piece, within a word as well.
    ids = with_symbols.encode([seen[1].removeprefix("_Save "), "the"])
    assert [len(spelling) for spelling in ids] == [3, 2]
    # Words are those of lines and translations: a symbol may stand for two.
    [first, *_] = ours.align(lines, translations)
    assert {pair for pair in first if pair[0] > 2} == {(s, t) for s in (3, 4) for t in (4, 5)}


def test_a_model_s_lost_symbols_are_repaired(with_symbols):
    def without_first(text):
        return "".join(sign for sign in text if sign not in SYMBOLS[:8]) + SYMBOLS[0]

    ours = translator(
        with_symbols, without_first, problem=ParallelText(transforms=("placeholders",))
    )
    translations = ours.translate(["the %s file {a}", "x@y.de", "50 % of %1 and %2"])
    for translation, pieces in zip(translations, ["%s {a}", "x@y.de", "%1 %2"], strict=True):
        assert all(translation.text.count(piece) == 1 for piece in pieces.split())
        assert not any(sign in translation.text for sign in SYMBOLS)
    assert sum(translation.notes.get("placeholders", 0) for translation in translations) > 2


def test_pairs_are_scored_with_symbols(with_symbols, monkeypatch):
    ours = translator(with_symbols, str, problem=ParallelText(transforms=("placeholders",)))
    scored = []

    def log_probs(sources, targets):
        scored.extend([*sources, *targets])
        return iter([(0, np.zeros(3, np.float32))])

    monkeypatch.setattr(ours.engine, "log_probs", log_probs)
    ours.score(["open %s"], ["save %s"])
    texts = with_symbols.decode(scored)
    assert texts[0][-1] == texts[1][-1] != "s"


def test_words_are_those_of_each_side_s_vocabulary(tokenizer, with_symbols):
    both, line = with_symbols.with_source(tokenizer), "the dog sees the cat"
    translator = Translator(Scripted(both, DecodeConfig(), []), both)
    [part] = translator.prepare([line])[0].parts
    [actual] = translator.align_parts([part], [line])
    # The target has more pieces: its words stand beside later ones of the source.
    assert actual == [(0, 0), (1, 1), (3, 2), (4, 3), (4, 4)]


def test_a_file_s_repaired_placeholders_are_counted(tokenizer, tmp_path, capsys):
    (tmp_path / "in").write_text("the %s\nopen %s {a}\nthe {a}\n")
    ours = translator(tokenizer, changed("%s", ""), changed("{a}", ""))
    translate_file(ours, tmp_path / "in", tmp_path / "out", {})
    assert sorted((tmp_path / "out").read_text().split()) == sorted(
        "the %s open %s {a} the {a}".split()
    )
    _, *lines = capsys.readouterr().out.splitlines()
    # Other hypotheses; then translations that were repaired, and their placeholders.
    assert [re.findall(r"\b\d+\b", line) for line in lines] == [["1"], ["1", "1"]]


PIECES = (
    "%s %d %1 %2 {0} {name} %% $x ${y} &nbsp; \\n http://a.b/c. x@y.de Wort, haus . ( ) { } % $ &"
).split()


@pytest.mark.parametrize(
    ("source", "target", "alignment", "expected"),
    [
        ("Open %s now", "Öffne jetzt.", [(0, 0), (2, 1)], "Öffne %s jetzt."),
        ("Open %s.", "Öffne.", [(0, 0)], "Öffne %s."),
        ("Open %s now", "Öffne bitte jetzt", [(0, 0), (0, 1), (2, 2)], "Öffne bitte %s jetzt"),
        ("Open %s now", "jetzt öffne", [(0, 1), (2, 0)], "jetzt öffne %s"),
        ("Open %s now", "Öffne bitte jetzt", [(0, 0), (1, 1), (2, 2)], "Öffne bitte %s jetzt"),
        ("See http://a.b now", "Siehe jetzt", [(0, 0), (2, 1)], "Siehe http://a.b jetzt"),
        ("See http://a.b", "Siehe {x}… hier", [], "Siehe http://a.b … hier"),
        ("%s is now", "ist jetzt", [(1, 0), (2, 1)], "%s ist jetzt"),
        ("Error: %s", "Fehler:", [(0, 0)], "Fehler: %s"),
        ("{name} is there", "{Name} ist {0} da.", [], "{name} ist da."),
        ("%(name)s is", "% (Name) s ist", [], "%(name)s ist"),
        ("use %d of %d", "%d von % d", [], "%d von %d"),
        ("%d files in %s", "in %s sind %d Dateien", [], "in %d sind %s Dateien"),
        ("the file %s", "die Datei", [], "die Datei %s"),
        # Without "%s" its neighbours would be another one.
        ("Buy $x now", "Kauf $x%s$& jetzt", [], "Kauf $x & jetzt"),
    ],
)
def test_places(source, target, alignment, expected):
    assert repair(source, target, alignment) == expected


@pytest.mark.parametrize(
    ("source", "target", "count"),
    [
        ("%d in %s", "%d in %s", 0),
        ("%d in %s", "%s in %d", 1),
        ("%s %s", "%d", 2),
        ("%d", "%s %s", 2),
    ],
)
def test_broken_placeholders_are_counted(source, target, count):
    assert count_wrong(source, target) == count


def test_a_kept_piece_takes_the_place_of_what_it_became():
    alignment = [(0, 0), (1, 1), (2, 2)]
    assert repair("a book .", "ein „Buch“ .", alignment, ["book"]) == "ein „book“ ."
    # Not of words that are far apart, and not of a placeholder.
    target = "ein „Buch“ . da war noch eins"
    assert repair("a book .", target, [(1, 1), (1, 6)], ["book"]) == f"{target} book"
    # A piece of one word replaces at most two.
    lines = "press save now", "bitte da speichern dort jetzt"
    assert repair(*lines, [(1, 1), (1, 2), (2, 4)], ["save"]) == "bitte save dort jetzt"
    repaired = repair(*lines, [(0, 0), (1, 1), (1, 3), (2, 4)], ["save"])
    assert repaired == "bitte da speichern dort save jetzt"
    # Nor of another placeholder's letters.
    assert repair("x %s file y", "x %s File y", [], ["file"]) == "x %s file y"
    assert repair("the book %s", "das %s hier", [(1, 1)], ["book"]) == "das %s book hier"


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("e is in a", "eine Rede ist in einer", "eine Rede ist in einer e"),
        ("press E", "Editieren", "Editieren E"),
        ("press E", "Rede e", "Rede E"),
    ],
)
def test_a_kept_piece_leaves_other_words_alone(source, target, expected):
    assert repair(source, target, [], ["e", "in", "E"]) == expected


@pytest.mark.parametrize("target", ["", "wort " * 99, "% A www.;<B " * 99])
@pytest.mark.parametrize("motif", ["www.;<b ", "www.a;<b ", "%a%b ", "word "])
def test_work_is_in_proportion_to_the_text(motif, target):
    alignment = [(number, number) for number in range(100)]

    def work(count):
        actual = repair(motif * count, target, alignment, ["word"])
        assert missing(motif * count, actual, ["word"]) == ([], [])
        return work_of(lambda: repair(motif * count, target, alignment, ["word"]))

    assert work(400) < 4.4 * work(100)


@pytest.mark.parametrize("count", [64, 65])
def test_at_most_64_lost_placeholders_are_placed(count):
    source = "a " + " ".join(f"%x{number}" for number in range(count)) + " b"
    actual = repair(source, "A B", [(0, 0), (count + 1, 1)])
    assert actual.endswith("B") == (count == 64)
    assert missing(source, actual) == ([], [])


def test_whatever_a_model_writes():
    draw = random.Random(3)
    for _ in range(3000):
        source = " ".join(draw.choices(PIECES, k=draw.randint(1, 8)))
        target = "".join(draw.choices([*PIECES, *[" "] * 9], k=draw.randint(0, 12)))
        words = len(source.split())
        alignment = [(draw.randrange(words), i) for i in range(len(target.split()))]
        actual = repair(source, target, alignment)
        assert missing(source, actual) == ([], []), (source, target)
        assert not is_reordered(source, actual)
