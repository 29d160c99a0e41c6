"""Sentences end where a reader of their language sees an end."""

import pytest

from t2t_keras.text.sentences import ends_sentence, join_sentences, sentence_splitter, sentences


def test_sentences_are_joined_by_the_white_space_of_their_sources():
    assert join_sentences(["a", "b", "c", "d\u3002", "e"], ["", "\n", " ", ""]) == "a b\nc d\u3002e"
    assert join_sentences(["", "b"], [""]) == "b"


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        ("en", ["It is large.[7] ", "This was so."]),
        ("en", ["It is large.[7][8] ", "This was so."]),
        ("en", ["See vol.[7]  of it."]),
        ("en", ["He said \u201cGo.\u201d[a] ", "Then he left.\u00b9 ", "And so on.*"]),
        ("en", ["Smith et al. [7] said so."]),
        ("en", ["Version 2.[x] is out."]),
        ("en", ["Wait\u2026 ", "Then he left."]),
        ("en", ["He left. ", "(It was so.) ", "She stayed."]),
        ("de", ["Das ist gro\u00df.[7] ", "Dies war so."]),
        (
            "ja",
            [
                "\u672c\u3067\u3059\uff0e",
                "\u5024\u306f\uff13\uff0e\uff15\u3067\u3059\uff61",
                "\u672c\u3067\u3059\uff0e",
            ],
        ),
        (
            "am",
            [
                "\u12ed\u1205 \u1275\u120d\u1245 \u1290\u12cd\u1362",
                "\u12ed\u1205 \u1275\u1295\u123d \u1290\u12cd\u1362",
            ],
        ),
        (
            "hi",
            [
                "\u092f\u0939 \u092c\u095c\u093e \u0939\u0948\u0964",
                "\u092f\u0939 \u091b\u094b\u091f\u093e \u0939\u0948\u0964 ",
                "\u0939\u093e\u0901\u0964",
            ],
        ),
        (
            "ur",
            [
                "\u06cc\u06c1 \u0628\u0691\u0627 \u06c1\u06d2\u06d4",
                "\u06cc\u06c1 \u0686\u06be\u0648\u0679\u0627 \u06c1\u06d2\u06d4",
            ],
        ),
        (
            "ar",
            [
                "\u0647\u0644 \u0647\u0630\u0627 \u0643\u0628\u064a\u0631\u061f ",
                "\u0646\u0639\u0645.",
            ],
        ),
        (
            "km",
            ["\u1793\u17c1\u17c7\u1792\u17c6\u17d4 ", "\u1793\u17c1\u17c7\u178f\u17bc\u1785\u17d4"],
        ),
    ],
)
def test_where_sentences_end(language, parts):
    assert sentence_splitter(language)("".join(parts)) == parts
    assert all(ends_sentence(part.strip()) for part in parts)


def test_sentences_end_alike_in_long_texts():
    text = "It is large.[7] This was so. (And so on.) " * 300
    assert "".join(sentence_splitter("en")(text)) == text
    assert len(sentence_splitter("en")(text)) == 900


@pytest.mark.parametrize("space", [" ", "  ", "\u00a0", "\u2028", "\u3000"])
def test_sentences(space):
    expected = ["A man sleeps.", "Why?", "A dog!"]
    assert sentences(space.join(expected), "en") == expected
    # Neither does a capital before such a space end the process.
    assert sentences(f"Plan B{space}. Then README.Md", "en") == [
        f"Plan B{space}.",
        "Then README.Md",
    ]
