import io
import itertools
import pickle
import random

import numpy as np
import pytest
import sentencepiece

from t2t_keras.data.text_files import read_text
from t2t_keras.data.tokenizer import EOS_ID, PADDING_ID, UNKNOWN_ID, Tokenizer
from t2t_keras.errors import UserError

WORDS = ("man", "rides", "his", "bicycle", "through", "the", "park", "small", "dogs")
LINES = [" ".join(words) + "." for words in itertools.permutations(WORDS, 3)]
ODD_LINES = [
    "",
    " ",
    "  two spaces  inside and at the end  ",
    "tab\tinside",
    "line separators \u2028 and \u0085 inside",
    "ends with a carriage return\r",
    "Größe, façade, naïve, Øresund",
    "e\u0301 is not \u00e9",
    "日本語 \U0001f6b2 עברית",
    "zero \u0000 byte",
    "<pad> </s> <unk> <0x41> \u2585",
    "\ufeffbyte order mark",
]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def tokenizer(request):
    return Tokenizer.train(LINES, 285, request.param)


def test_special_ids_stand_where_the_lineage_has_them(tokenizer):
    assert (PADDING_ID, EOS_ID, UNKNOWN_ID) == (0, 1, 2)
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    assert (processor.pad_id(), processor.eos_id(), processor.unk_id()) == (0, 1, 2)
    assert processor.bos_id() == -1
    assert tokenizer.vocab_size == 285


def test_text_comes_back_exactly(tokenizer):
    encoded = tokenizer.encode(LINES + ODD_LINES)
    assert tokenizer.decode(encoded) == LINES + ODD_LINES
    for ids in encoded:
        assert ids.dtype == np.int32
        assert list(ids).index(EOS_ID) == len(ids) - 1
        assert UNKNOWN_ID not in ids


def test_special_names_in_the_text_are_ordinary_text(tokenizer):
    for ids in tokenizer.encode(["</s> <pad> <unk>"]):
        assert not {PADDING_ID, EOS_ID, UNKNOWN_ID} & set(ids[:-1].tolist())


def test_a_space_sign_comes_back_as_a_space(tokenizer):
    assert tokenizer.decode(tokenizer.encode(["a\u2581b"])) == ["a b"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_graph_gives_the_same_ids(kind):
    tokenizer = Tokenizer.train(LINES, 285, kind)
    tokenize = tokenizer.graph_tokenizer().tokenize
    lines = LINES + ODD_LINES
    assert tokenize(lines).to_list() == [ids.tolist() for ids in tokenizer.encode(lines)]
    assert tokenize(lines).dtype.name == "int32"


def test_equally_likely_pieces_in_the_graph():
    # "0000" is "0" + "000" or "000" + "0". Without exact scores the rounding of the sum over the
    # line decides between them, and the two libraries round differently.
    generator = random.Random(0)

    def item():
        word, factor = generator.choice(WORDS), generator.choice((1, 10, 100))
        return f"{word} {generator.randint(1, 9999) * factor}"

    lines = [" ".join(item() for _ in range(8)) for _ in range(400)]
    tokenizer = Tokenizer.train(lines, 400, "unigram")
    lines = [f"{line} dog{zeros}" for line in lines for zeros in ("000", "0000", "00000")]
    encoded = tokenizer.encode(lines)
    assert tokenizer.graph_tokenizer().tokenize(lines).to_list() == [i.tolist() for i in encoded]


@pytest.mark.parametrize(
    "corpus",
    [
        "multi30k/val.{}",
        "multi30k/tok/val.lc.norm.tok.{}",
        "libreoffice_help/dev.en-de.{}",
        "debian_descriptions/dev.en-de.{}",
    ],
)
@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_real_text(shared_data, corpus, kind):
    lines = [
        line
        for language in ("en", "de")
        for line in read_text(shared_data / corpus.format(language))
    ]
    assert len(lines) > 2000
    # Learned from one half, so that the other half has characters and words never seen.
    tokenizer = Tokenizer.train(lines[::2], 2000, kind)
    encoded = tokenizer.encode(["", *lines])
    assert encoded[0].tolist() == [EOS_ID]
    assert tokenizer.graph_tokenizer().tokenize(["", *lines]).to_list() == [
        ids.tolist() for ids in encoded
    ]
    decoded = tokenizer.decode(encoded)
    if kind == "char":
        known = [UNKNOWN_ID not in ids for ids in encoded]
        assert sum(known) > 0.99 * len(known)
        decoded, lines = (list(itertools.compress(side, known)) for side in (decoded, ["", *lines]))
        assert decoded == lines
    else:
        assert decoded == ["", *lines]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_training_is_deterministic(kind):
    first, second = (Tokenizer.train(iter(LINES), 285, kind) for _ in range(2))
    assert first.model_bytes == second.model_bytes
    assert first.checksum == second.checksum
    assert Tokenizer.train(LINES[:400], 280, kind).checksum != first.checksum


def test_no_training_line_is_too_long():
    rare = "\u0416" * 50
    tokenizer = Tokenizer.train(["ab " * 10_000 + rare, "ab"], 263, "bpe")
    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model_bytes)
    assert processor.piece_to_id("\u0416") != UNKNOWN_ID


def test_characters():
    tokenizer = Tokenizer.train(["0110", "1+01"], 16, "char")
    assert tokenizer.vocab_size == 3 + len("01+")
    (ids,) = tokenizer.encode([" 0110"])
    assert ids.tolist()[0] == UNKNOWN_ID
    assert len(tokenizer.encode(["0110"])[0]) == 5
    assert tokenizer.decode(tokenizer.encode(["0110", "1+01"])) == ["0110", "1+01"]


def test_decode_stops_at_the_first_end_and_ignores_padding(tokenizer):
    (ids,) = tokenizer.encode(["small dogs"])
    rows = np.zeros((2, len(ids) + 4), np.int64)
    rows[0, : len(ids)] = ids
    rows[1, : len(ids)] = ids
    rows[1, len(ids) :] = ids[0]
    assert tokenizer.decode(rows) == ["small dogs", "small dogs"]
    assert tokenizer.decode([ids[:-1], [], [EOS_ID, 5]]) == ["small dogs", "", ""]
    assert tokenizer.decode([[PADDING_ID, *ids[:-1], PADDING_ID]]) == ["small dogs"]


@pytest.mark.parametrize("wrong", [-1, 285, 1 << 31])
def test_decode_refuses_unknown_ids(tokenizer, wrong):
    with pytest.raises(UserError, match=rf"id {wrong} is not in the vocabulary.*0 to 284"):
        tokenizer.decode([[5, wrong]])


def test_saved_and_loaded(tokenizer, tmp_path):
    path = tmp_path / "vocab.model"
    path.write_bytes(tokenizer.model_bytes)
    for copy in (Tokenizer.load(path), pickle.loads(pickle.dumps(tokenizer))):
        assert copy.checksum == tokenizer.checksum
        assert (
            copy.encode(["small dogs"])[0].tolist() == tokenizer.encode(["small dogs"])[0].tolist()
        )


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_too_large_a_vocabulary_names_the_largest(kind):
    with pytest.raises(UserError, match="vocab_size=8000 is more") as caught:
        Tokenizer.train(LINES, 8000, kind)
    largest = int(str(caught.value).split("Set vocab_size=")[1].split()[0])
    assert Tokenizer.train(LINES, largest, kind).vocab_size == largest
    with pytest.raises(UserError, match="is more than"):
        Tokenizer.train(LINES, largest + 1, kind)


def test_too_small_a_vocabulary_names_the_smallest():
    with pytest.raises(UserError, match=r"too small.* (\d+)\. Set vocab_size above \1\."):
        Tokenizer.train(LINES, 100, "bpe")


@pytest.mark.parametrize("lines", [[], ["", ""]])
def test_no_text_to_learn_from(lines):
    with pytest.raises(UserError, match="no text to learn"):
        Tokenizer.train(lines, 285, "bpe")


def test_unknown_kind():
    with pytest.raises(UserError, match="one of bpe, unigram, char; 'word' came"):
        Tokenizer.train(LINES, 285, "word")


@pytest.mark.parametrize("failure", [UserError("the source is gone"), KeyboardInterrupt()])
def test_failures_of_the_source_pass_through_training(failure):
    def lines():
        yield "a line"
        raise failure

    with pytest.raises(type(failure)) as caught:
        Tokenizer.train(lines(), 285, "bpe")
    assert caught.value is failure


@pytest.mark.parametrize("content", [b"", b"no model at all", bytes(100)])
def test_a_file_that_is_no_model(tmp_path, content):
    path = tmp_path / "other.model"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"other\.model is not a SentencePiece model"):
        Tokenizer.load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UserError, match=r"none\.model cannot be read: No such file"):
        Tokenizer.load(tmp_path / "none.model")


def test_a_model_with_other_special_ids():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_writer=model, vocab_size=30, minloglevel=2
    )
    with pytest.raises(UserError) as caught:
        Tokenizer(model.getvalue(), origin="mine.model")
    assert "mine.model has other special ids: padding is missing (expected 0)" in str(caught.value)
    assert "end of sentence is 2 (expected 1), unknown is 0 (expected 2)" in str(caught.value)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_symbols_are_one_piece_each(kind):
    symbols = ["(S", "(SBAR", "/S)", "(,)", "('')", "(``)", '(")']
    # The one that no line has is there as well.
    lines = ["(S (,) ('') a cat /S)", "S /S cats , 'eat' the SBAR (``)", '(") a dog'] * 20
    tokenizer = Tokenizer.train(lines, 285, kind, symbols)
    for line in (*lines[:3], "(SBAR (S /S)", "(S"):
        ids = tokenizer.encode([line])[0]
        pieces = tokenizer.pieces(ids[:-1])
        found = [piece for piece in pieces if piece[1:] in symbols]
        assert found == [f"\u2581{word}" for word in line.split() if word in symbols]
        assert tokenizer.decode([ids]) == [line]
        assert tokenizer.graph_tokenizer().tokenize([line]).to_list() == [ids.tolist()]
