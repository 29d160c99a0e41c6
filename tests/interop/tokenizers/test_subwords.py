"""tensor2tensor's vocabularies, against its `SubwordTextEncoder` written again."""

import re
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras.decoding.confidence import confidences
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.translation import Translation
from t2t_keras.decoding.translator import Translator
from t2t_keras.interop.tokenizers import SubwordTokenizer
from t2t_keras.text.tokenizer import Tokenizer

LINES = [
    "",
    " ",
    "x ",
    "  two spaces,  and a\ttab ",
    "under_score, back\\slash, \\u \\\\ \\12; and 3 _",
    "日本語 \U0001f6b2 Größe\u00a0façade ½ Ⅷ",
    "<pad> and <EOS> 1,000.50 - don't",
    "e\u0301 \x00 \u2028",
]


@pytest.fixture(scope="module")
def content():
    """A small vocabulary: of all that escapes need, and of some words."""
    words = ["the_", "th", "e", "_", " ", ", ", "\\", "u", ";", *"0123456789abdhilnorstwxy,.-<>'"]
    return "".join(
        f"'{token}'\n" for token in ["<pad>", "<EOS>", *words, "wo", "word", "é"]
    ).encode()


class Original:
    """`SubwordTextEncoder` and its tokenizer, as tensor2tensor defines them."""

    def __init__(self, subtokens):
        self.subtokens = subtokens
        self.ids = {subtoken: i for i, subtoken in enumerate(subtokens) if i > 1}
        self.alphabet = {c for subtoken in subtokens[2:] for c in subtoken} | set("\\_u;0123456789")

    def encode(self, text):
        return [i for token in split(text) for i in self.subtoken_ids(token)]

    def subtoken_ids(self, token):
        token = token.replace("\\", "\\\\").replace("_", "\\u")
        escaped = "".join(c if c in self.alphabet else rf"\{ord(c)};" for c in token) + "_"
        ids, start = [], 0
        while start < len(escaped):
            for end in range(len(escaped), start, -1):
                if escaped[start:end] in self.ids:
                    ids.append(self.ids[escaped[start:end]])
                    start = end
                    break
            else:
                raise AssertionError
        return ids

    def decode(self, ids):
        joined = "".join(self.subtokens[i] for i in ids)
        tokens = [unescape(token) for token in joined.split("_") if token]
        tokens = [token for token in tokens if token]
        text = []
        for i, token in enumerate(tokens):
            if i and alphanumeric(tokens[i - 1][0]) and alphanumeric(token[0]):
                text.append(" ")
            text.append(token)
        return "".join(text)


def alphanumeric(c):
    return unicodedata.category(c).startswith(("L", "N"))


def split(text):
    if not text:
        return []
    tokens, start = [], 0
    for i in range(1, len(text)):
        if alphanumeric(text[i]) != alphanumeric(text[i - 1]):
            token = text[start:i]
            if token != " " or start == 0:
                tokens.append(token)
            start = i
    return [*tokens, text[start:]]


def unescape(token):
    def match(escape):
        if escape.group(1) is None:
            return "_" if escape.group(0) == "\\u" else "\\"
        try:
            # tensor2tensor fails where it writes a half of a pair.
            return chr(int(escape.group(1))).encode().decode()
        except (ValueError, OverflowError):
            return "\u3013"

    return re.sub(r"\\u|\\\\|\\([0-9]+);", match, token)


def check(tokenizer, lines):
    subtokens = [read(line) for line in tokenizer.model_bytes.decode().split("\n")[:-1]]
    original = Original(subtokens)
    encoded = tokenizer.encode(lines)
    assert [ids.tolist() for ids in encoded] == [[*original.encode(line), 1] for line in lines]
    assert tokenizer.decode(encoded) == [original.decode(ids[:-1]) for ids in encoded] == lines
    in_graph = tokenizer.graph_tokenizer()
    assert in_graph.tokenize(tf.constant(lines)).to_list() == [ids.tolist() for ids in encoded]
    # Any ids can come out of a model, halves of escapes too.
    random = np.random.default_rng(1)
    ids = random.integers(2, tokenizer.vocab_size, (200, 12), np.int32)
    for rows in (ids, tf.ragged.constant([list(row) for row in encoded]).to_tensor().numpy()):
        texts = tokenizer.decode(rows)
        assert [text.decode() for text in in_graph.detokenize(tf.constant(rows)).numpy()] == texts
        for row, text in zip(rows, texts, strict=True):
            pieces = tokenizer.pieces(row[row > 1])
            assert "".join(pieces).replace("\u2581", " ") == text


def read(line):
    """As `_load_from_file_object` of tensor2tensor 1.15.7 does."""
    s = line.rstrip()
    if (s.startswith("'") and s.endswith("'")) or (s.startswith('"') and s.endswith('"')):
        s = s[1:-1]
    return s


def test_a_small_vocabulary(content):
    check(SubwordTokenizer(content), LINES)
    ended = content.replace(b"<pad>", b"<pad>_").replace(b"<EOS>", b"<EOS>_")
    assert SubwordTokenizer(ended).vocab_size == SubwordTokenizer(content).vocab_size


def test_a_vocabulary_without_quotes(content):
    """A piece begins with a space, but does not end in one; a quote alone is nothing."""
    lines = [line[1:-1] for line in content.decode().split("\n")[:-1]]
    lines += [" - _", " -", "ab ", "'ll", "\u00a0,_"]
    tokenizer = SubwordTokenizer("".join(f"{line}\n" for line in lines).encode())
    texts = ["a - b", "ab -ll th", "the\u00a0,x_12", "-' x"]
    check(tokenizer, texts[:3])
    assert tokenizer.decode(tokenizer.encode(texts)) == texts
    assert [lines[i] for i in tokenizer.encode(["'"])[0]] == [*"\\39;", "_", "<EOS>"]
    windows = SubwordTokenizer(tokenizer.model_bytes.replace(b"\n", b"\r\n"))
    assert windows.vocabulary() == tokenizer.vocabulary()
    [ids] = tokenizer.encode(["ab - b"])
    assert [lines[i] for i in ids] == ["ab ", "_", " - _", "b", "_", "<EOS>"]


@pytest.mark.parametrize("number", ["55295", "55296", "57343", "57344", "1114111", "1114112"])
def test_escapes_of_what_is_no_character(content, number):
    tokenizer = SubwordTokenizer(content)
    escaped = f"\\{number};"
    ids = [tokenizer.vocabulary()[piece] for piece in (*escaped, "a", "b")]
    in_graph = tokenizer.graph_tokenizer()
    [text] = tokenizer.decode([ids])
    assert text == unescape(escaped) + "ab"
    assert in_graph.detokenize(tf.constant([ids])).numpy()[0].decode() == text


def test_two_vocabularies_of_one_size(content, monkeypatch):
    words = [f"{i}x" for i in range(1000)]
    first, other, last = (
        SubwordTokenizer(content + "".join(f"{quote}{token}{quote}\n" for token in its).encode())
        for quote, its in (("'", words), ('"', words), ("'", [*words[:-1], "y"]))
    )
    seen, text = [], SubwordTokenizer._text
    monkeypatch.setattr(
        SubwordTokenizer, "_text", lambda self, ids: seen.append(len(ids)) or text(self, ids)
    )
    assert first.with_source(other).source_vocab_size is None
    assert first.with_source(last).source_vocab_size == first.vocab_size
    assert sum(seen) < 10 * first.vocab_size


@pytest.mark.parametrize("size", ["8k.8192", "32k.32768"])
def test_real_vocabularies_on_real_lines(shared_data, size):
    path = shared_data / "tensor2tensor" / f"vocab.translate_ende_wmt{size}.subwords"
    lines = (
        (shared_data / "europarl" / "europarl20k.en-de.de").read_text("utf-8").splitlines()[:200]
    )
    check(Tokenizer.load(path), lines + LINES)


@pytest.mark.parametrize(
    ("content", "code", "names"),
    [
        (b"\xff", "not_utf8", []),
        (b"'a'\n'b'\n", "not_a_vocabulary", ["<pad>", "<EOS>", "'a, b'"]),
        (b"<pad>\n<EOS>\na10\n0\n_\n", "not_a_vocabulary", [" 123456789;\\u,"]),
    ],
)
def test_other_files_are_refused(content, code, names, tmp_path):
    (tmp_path / "vocab.subwords").write_bytes(content)
    with refused(code, "vocab.subwords", *names):
        Tokenizer.load(tmp_path / "vocab.subwords")


def test_a_piece_of_several_words(model):
    pieces = ["<pad>_", "<EOS>_", "a_", "b_", ". - _", *"ab.- \\_;0123456789u"]
    tokenizer = SubwordTokenizer("\n".join(f"'{piece}'" for piece in pieces).encode())
    translator = Translator(model, tokenizer, DecodeConfig(beam_size=2, extra_length=6))
    assert len(tokenizer.encode(["a. - b"])[0]) == 4
    [confidence] = confidences(translator, ["b"], [Translation("a. - b", 0.0, (), ("a. - b",))])
    first, second, third = confidence.words
    assert first == second != third
