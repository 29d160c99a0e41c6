import pytest

from t2t_keras.errors import UserError
from t2t_keras.text.glossary import Glossary, Term

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
        ("हिन्दी हिन्दीी हिन्दी\u200dका हिन्दी\u200cका", "हिन्दी"),
        ("", ""),
    ],
)
def test_terms_in_a_text(text, expected):
    found = [text[match.start : match.end] for match in GLOSSARY.matches(text)]
    assert found == [] if not expected else " ".join(found) == expected


def test_matches_name_their_terms():
    [match] = GLOSSARY.matches("A GmbH")
    assert match == (2, 6, Term("GmbH", "Ltd", "a note"))


def test_of_two_cases_the_exact_one():
    glossary = Glossary.of([("us", "uns"), ("US", "USA")])
    found = [match.term.target for match in glossary.matches("US, us, Us")]
    assert found == ["USA", "uns", "uns"]


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
    ("content", "message"),
    [
        (b"dog\tHund\ndog Hund", r"terms.tsv:2: .* got 1 columns: 'dog Hund'"),
        (b"a\tb\tc\td", "got 4 columns"),
        (b"dog\t ", "terms.tsv:1: the target is blank"),
        (b"\tHund", "the source is blank"),
        (b"dog\tHund\n\nDog\tHunde", r":3: 'Dog' is to become 'Hunde', but 'Hund' in .*tsv:1"),
        ("dog\t⟪ Hund".encode(), "are marks"),
        (b"dog\t" + b"H" * 1025, "at most 1,024 characters, got 1,025"),
        (b"! " * 201 + b"\tHund", "at most 200 words and signs, got 201"),
        (b"dog\tH\xff", "UTF-8"),
    ],
)
def test_wrong_files(tmp_path, content, message):
    path = tmp_path / "terms.tsv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        Glossary.read(path)
    with pytest.raises((UserError, OSError), match="nowhere"):
        Glossary.read(tmp_path / "nowhere")


@pytest.mark.parametrize("source", ["d" * 1024, "! " * 200])
def test_long_terms_are_terms(source):
    [match] = Glossary.of([(source, "H" * 1024)]).matches(f"a {source} b")
    assert (match.start, match.end) == (2, 2 + len(source.strip()))


@pytest.mark.parametrize("pair", ["dog", ("dog",), ("dog", None), ("dog", "\ud800")])
def test_wrong_pairs(pair):
    with pytest.raises(UserError, match="Term 2"):
        Glossary.of([("a", "b"), pair])
