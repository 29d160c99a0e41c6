"""Terms in a text, and hints for them."""

import pytest
from refusals import refused

from t2t_keras.workbench.terms.glossary import (
    Glossary,
    Term,
    has_marks,
    original_word_numbers,
    positions_with_hints,
    with_hints,
    without_hint_words,
    without_hints,
)

GLOSSARY = Glossary.of(
    [
        ("dog", "Hund"),
        ("hot dog", "Wurst"),
        ("dog food bowl", "Napf"),
        ("IT", "EDV"),
        ("GmbH", "Ltd", "a note"),
        ("don't", "nicht"),
        ("file", "Datei"),
        ("日本", "Japan"),
        ("サーバー", "Server"),
        ("café", "Kaffee"),
        ("DÉF", "Def"),
        ("Straße", "street"),
        ("हिन्दी", "Hindi"),
    ]
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dog, the DOG and a (dog).", "dog DOG dog"),
        ("dogs bulldog dog_food hotdog", ""),
        ("dog-house", "dog"),
        # The longest wins, also where it begins later.
        ("A hot  dog.", "hot  dog"),
        ("hot dog food bowl", "dog food bowl"),
        ("hot, dog", "dog"),
        # Capitals inside count, a first one does not.
        ("it is IT of a gmbh, GmbH, It", "IT GmbH"),
        ("I don't, Don't, don t", "don't Don't"),
        # What is a program's stays.
        ("%(file)s file {file} ${file} https://file.de/file", "file"),
        # Scripts without spaces; katakana are words, also beside hiragana.
        ("私は日本人、日 本", "日本"),
        ("サーバーを再起動 サーバーズ サーバーㇰ", "サーバー"),
        ("STRASSE strasse straßen", "STRASSE strasse"),
        # An accent and a vowel sign belong to their letter.
        ("cafe cafe\u0301 cafés", "cafe\u0301"),
        ("DE\u0301F déf DEF DÉF", "DE\u0301F DÉF"),
        ("हिन्दी हिन्दीी हिन्दी\u200dका हिन्दी\u200cका", "हिन्दी"),
        ("", ""),
    ],
)
def test_terms_in_a_text(text, expected):
    actual = [text[match.start : match.end] for match in GLOSSARY.matches(text)]
    assert actual == [] if not expected else " ".join(actual) == expected


def test_matches_name_their_terms():
    [match] = GLOSSARY.matches("A GmbH")
    assert match == (2, 6, Term("GmbH", "Ltd", "a note"))


def test_of_two_cases_the_exact_one():
    glossary = Glossary.of([("us", "uns"), ("US", "USA")])
    targets = [match.term.target for match in glossary.matches("US, us, Us")]
    assert targets == ["USA", "uns", "uns"]


def test_of_several_targets_the_first_counts_where_it_is_asked_for():
    glossary = Glossary.of([("dog", "Hund"), ("Dog", "Hunde", "n")], first_counts=True)
    assert glossary.terms == (Term("dog", "Hund"),)


def test_files(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "terms.tsv"
    path.write_bytes("\ufeffdog\tHund\r\n\n hot  dog \tWurst\tfood\r\ndog\tHund\n".encode())
    glossary = Glossary.read("~/terms.tsv")
    assert list(glossary) == [Term("dog", "Hund"), Term("hot dog", "Wurst", "food")]
    assert (len(glossary), bool(glossary), bool(Glossary())) == (2, True, False)


def test_terms_are_in_nfc_with_no_byte_order_mark_and_their_no_break_spaces(tmp_path):
    path = tmp_path / "terms.tsv"
    # As of two files, one behind the other.
    path.write_text("dog\tHund\n\ufeffcafe\u0301\tCafe\u0301\u00a05\n\u200b\n", "utf-8")
    glossary = Glossary.read(path)
    assert glossary.terms[1] == Term("caf\u00e9", "Caf\u00e9\u00a05")
    assert [match.start for match in glossary.matches("A cafe\u0301, a caf\u00e9.")] == [2, 11]


@pytest.mark.parametrize("sign", ["\u2028", "\u0085", "\x0b", "\x0c"])
def test_lines_of_a_glossary_end_only_at_line_feeds(tmp_path, sign):
    path = tmp_path / "terms.tsv"
    path.write_text(f"hot{sign}dog\tHei{sign}\u00dfer\n", "utf-8")
    assert list(Glossary.read(path)) == [Term("hot dog", "Hei \u00dfer")]


@pytest.mark.parametrize(
    ("content", "code", "names"),
    [
        (b"dog\tHund\ndog Hund", "bad_line", ["terms.tsv:2:", " 1 ", "'dog Hund'"]),
        (b"a\tb\tc\td", "bad_line", [" 4 "]),
        (b"dog\t ", "blank", ["terms.tsv:1:", " target "]),
        (b"\tHund", "blank", ["terms.tsv:1:", " source "]),
        (b"dog\tHund\n\nDog\tHunde", "terms_conflict", [":3: 'Dog'", "'Hunde'", "'Hund'", "tsv:1"]),
        ("dog\t⟪ Hund".encode(), "reserved_text", ["terms.tsv:1:", "⟪"]),
        (b"dog\t" + b"H" * 1025, "too_long", [" 1,024 ", " 1,025:"]),
        (b"! " * 201 + b"\tHund", "too_long", [" 200 ", " 201:"]),
        (b"dog\tH\xff", "not_utf8", ["terms.tsv:1 "]),
    ],
)
def test_wrong_files(tmp_path, content, code, names):
    path = tmp_path / "terms.tsv"
    path.write_bytes(content)
    with refused(code, *names):
        Glossary.read(path)
    with refused("not_read", "nowhere"):
        Glossary.read(tmp_path / "nowhere")


@pytest.mark.parametrize("source", ["d" * 1024, "! " * 200])
def test_long_terms_are_terms(source):
    [match] = Glossary.of([(source, "H" * 1024)]).matches(f"a {source} b")
    assert (match.start, match.end) == (2, 2 + len(source.strip()))


@pytest.mark.parametrize(
    ("pair", "code"),
    [
        ("dog", "bad_value"),
        (("dog",), "bad_line"),
        (("dog", None), "bad_value"),
        (("dog", "\ud800"), "invalid_text"),
    ],
)
def test_wrong_pairs(pair, code):
    with refused(code, "Term 2"):
        Glossary.of([("a", "b"), pair])


TEXT = "The hot dog, it  barks."
HINTED = "The ⟪ hot dog ⟪ die Wurst ⟫, it  ⟪ barks ⟪ bellt ⟫."
HINTS = [(4, 11, "die Wurst"), (17, 22, "bellt")]


def test_hints_stand_behind_their_terms_and_leave_the_rest_as_it_is():
    assert with_hints(TEXT, HINTS) == HINTED
    assert without_hints(HINTED) == TEXT
    assert with_hints(TEXT, []) == without_hints(TEXT) == TEXT
    assert [has_marks(text) for text in (HINTED, TEXT, "a ⟫")] == [True, False, True]
    assert without_hints("a ⟪ b") == "a ⟪ b", "half a hint is text"


@pytest.mark.parametrize(
    ("hinted", "numbers"),
    [
        # The first mark belongs to "hot", word 1, the hint to "dog,", word 2; "it" is word 3.
        (HINTED, [0, 1, 1, 2, 2, 2, 2, 2, 3, 4, 4, 4, 4, 4]),
        ("a b", [0, 1]),
        ("⟪ a ⟪ x ⟫-b c", [0, 0, 0, 0, 0, 1]),
        ("(⟪ a b ⟪ x ⟫) c", [0, 0, 1, 1, 1, 1, 2]),
        ("", []),
    ],
)
def test_words_of_a_hint_count_as_the_word_before(hinted, numbers):
    assert original_word_numbers(hinted) == numbers
    plain = len(without_hints(hinted).split())
    assert set(numbers) == set(range(plain))


@pytest.mark.parametrize("front", ["", "<2de> "])
def test_places_in_a_text_with_hints(front):
    places = positions_with_hints(front + HINTED, len(TEXT))
    assert "".join((front + HINTED)[place] for place in places[:-1]) == TEXT
    assert places[-1] == len(front + HINTED)


def test_alignments_without_hints():
    # "Wurst" is aligned with a word of the hint and with the dog.
    pairs = [(0, 0), (3, 1), (5, 1), (11, 2)]
    assert without_hint_words(pairs, HINTED) == [(0, 0), (2, 1), (4, 2)]
