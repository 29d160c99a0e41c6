import io
import itertools
import pickle

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from refusals import refused

from t2t_keras.errors import UserError
from t2t_keras.special_ids import EOS_ID, PADDING_ID, UNKNOWN_ID
from t2t_keras.text import tokenizer as module
from t2t_keras.text.files import read_text
from t2t_keras.text.tokenizer import SentencePieceTokenizer

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
    return SentencePieceTokenizer.train(LINES, 285, request.param)


def test_text_comes_back_exactly(tokenizer, tmp_path):
    (tmp_path / "vocab.model").write_bytes(tokenizer.model_bytes)
    copies = [
        SentencePieceTokenizer.load(tmp_path / "vocab.model"),
        pickle.loads(pickle.dumps(tokenizer)),
    ]
    for ids, *ids_of_copies in zip(
        *(copy.encode(ODD_LINES) for copy in (tokenizer, *copies)), strict=True
    ):
        assert ids.dtype == np.int32
        assert ids[-1] == EOS_ID
        # Also where their names are in the text.
        assert not {PADDING_ID, EOS_ID, UNKNOWN_ID} & set(ids[:-1].tolist())
        assert all(np.array_equal(ids, other) for other in ids_of_copies)
    assert tokenizer.decode(tokenizer.encode(ODD_LINES)) == ODD_LINES
    assert tokenizer.vocab_size == 285
    # The one exception is SentencePiece's sign for a space.
    assert tokenizer.decode(tokenizer.encode(["a\u2581b"])) == ["a b"]


def test_equally_likely_pieces_in_the_graph():
    # "0000" is "0" + "000" or "000" + "0". Without exact scores the rounding of the sum over the
    # line decides between them, and the two libraries round differently.
    numbers = np.random.default_rng(0).integers(1, 9999, (400, 9)) * np.tile([1, 10, 100], 3)
    lines = [" ".join(f"{word} {n}" for word, n in zip(WORDS, row, strict=True)) for row in numbers]
    tokenizer = SentencePieceTokenizer.train(lines, 400, "unigram")
    lines = [f"{line} dog{zeros}" for line in lines for zeros in ("000", "0000", "00000")]
    encoded = tokenizer.encode(lines)
    assert tokenizer.graph_tokenizer().tokenize(lines).to_list() == [i.tolist() for i in encoded]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_real_text(shared_data, kind):
    corpora = ("multi30k/val", "libreoffice_help/dev.en-de")
    paths = [f"{shared_data}/{corpus}.{code}" for corpus in corpora for code in ("en", "de")]
    lines = [line for path in paths for line in read_text(path)[:500]]
    # Learned from one half, so that the other half has characters and words never seen.
    tokenizer = SentencePieceTokenizer.train(lines[::2], 1000, kind)
    lines += ["", *ODD_LINES]
    encoded = tokenizer.encode(lines)
    in_graph = tokenizer.graph_tokenizer().tokenize(lines)
    assert in_graph.dtype.name == "int32"
    assert in_graph.to_list() == [ids.tolist() for ids in encoded]
    decoded = tokenizer.decode(encoded)
    if kind == "char":
        known = [UNKNOWN_ID not in ids for ids in encoded]
        assert sum(known) > 0.99 * len(known)
        decoded, lines = (list(itertools.compress(side, known)) for side in (decoded, lines))
    assert decoded == lines


@pytest.mark.parametrize("beginning", ["ab " * 30_000, "\u2585"], ids=["long", "reserved"])
def test_no_training_line_is_left_out(beginning):
    tokenizer = SentencePieceTokenizer.train([beginning + "\u0416" * 50, "ab"], 263, "bpe")
    assert "\u0416" in tokenizer.vocabulary()


def test_characters():
    tokenizer = SentencePieceTokenizer.train(["0110", "1+01"], 16, "char")
    assert sorted(tokenizer.vocabulary()) == ["+", "0", "1", "</s>", "<pad>", "<unk>"]
    assert tokenizer.encode([" 0110"])[0][0] == UNKNOWN_ID


def test_decode_stops_at_the_first_end_and_ignores_padding(tokenizer):
    ids = tokenizer.encode(["small dogs"])[0].tolist()
    rows = np.array([[*ids, PADDING_ID, PADDING_ID], [*ids, ids[0], ids[0]]])
    assert tokenizer.decode(rows) == ["small dogs", "small dogs"]
    assert tokenizer.decode([ids[:-1], [], [EOS_ID, 5]]) == ["small dogs", "", ""]
    assert tokenizer.decode([[PADDING_ID, *ids[:-1], PADDING_ID]]) == ["small dogs"]
    for wrong in (-1, 285):
        with refused("other_vocabulary", f" {wrong} ", "0 to 284"):
            tokenizer.decode([[5, wrong]])


def test_too_large_a_vocabulary_names_the_largest():
    with refused("bad_value", "vocab_size=8000") as caught:
        SentencePieceTokenizer.train(LINES, 8000)
    largest = int(str(caught.value).split("Set vocab_size=")[1].split()[0])
    assert SentencePieceTokenizer.train(LINES, largest).vocab_size == largest


@pytest.mark.parametrize(
    ("lines", "size", "kind", "code", "names"),
    [
        (LINES, 100, "bpe", "bad_value", ["vocab_size=100 "]),
        (LINES, 10**30, "bpe", "vocabulary_not_learned", [" 1000000000"]),
        (["", ""], 285, "bpe", "no_text", []),
        (LINES, 285, "word", "bad_value", ["bpe, unigram, char", "'word'"]),
    ],
)
def test_vocabularies_that_cannot_be_learned(lines, size, kind, code, names):
    with refused(code, *names):
        SentencePieceTokenizer.train(lines, size, kind)


@pytest.mark.parametrize("failure", [UserError("the source is gone"), KeyboardInterrupt()])
def test_failures_of_the_source_pass_through_training(failure):
    def lines():
        yield "a line"
        raise failure

    with pytest.raises(type(failure)) as caught:
        SentencePieceTokenizer.train(lines(), 285)
    assert caught.value is failure


def test_several_vocabularies_in_one_saved_model(tmp_path):
    tokenizers = [SentencePieceTokenizer.train(LINES, size) for size in (285, 290)]
    saved = tf.Module()
    saved.tokenizers = [kind.graph_tokenizer() for kind in tokenizers]
    text = tf.TensorSpec([None], tf.string)
    saved.ids = [
        tf.function(graph_tokenizer.tokenize, input_signature=[text]).get_concrete_function()
        for graph_tokenizer in saved.tokenizers
    ]
    tf.saved_model.save(saved, tmp_path)
    for tokenizer, ids in zip(tokenizers, tf.saved_model.load(tmp_path).ids, strict=True):
        expected = [ids.tolist() for ids in tokenizer.encode(LINES)]
        assert ids(tf.constant(LINES)).to_list() == expected


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_symbols_are_one_piece_each(kind):
    symbols = ["(S", "(SBAR", "/S)", "(,)", "('')", "(``)", '(")']
    # The one that no line has is there as well.
    lines = ["(S (,) ('') a cat /S)", "S /S cats , 'eat' the SBAR (``)", '(") a dog'] * 20
    tokenizer = SentencePieceTokenizer.train(lines, 285, kind, symbols)
    for line in (*lines[:3], "(SBAR (S /S)", "(S"):
        ids = tokenizer.encode([line])[0]
        pieces = tokenizer.pieces(ids[:-1])
        actual = [piece for piece in pieces if piece[1:] in symbols]
        assert actual == [f"\u2581{word}" for word in line.split() if word in symbols]
        assert tokenizer.decode([ids]) == [line]
        assert tokenizer.graph_tokenizer().tokenize([line]).to_list() == [ids.tolist()]


NUMBERED = [f"the house {n} stands  near the tree {n * n}, as it did" for n in range(60)]
SPACES = ["", " ", "   ", " a", "a ", "a\u2581b \u2581", "the\tthe", "\u00a0the", "new words here"]


def other_model(**options):
    """A model that SentencePiece trained with other options than ours."""
    ours = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1, "byte_fallback": True}
    ours |= {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    ours |= {"vocab_size": 330, "hard_vocab_limit": False, "minloglevel": 2}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(NUMBERED), model_writer=model, **(ours | options)
    )
    return model.getvalue()


@pytest.mark.parametrize(
    ("content", "code", "name"),
    [
        (None, "not_read", ""),
        (b"", "not_sentencepiece", ""),
        (b"no model at all", "not_sentencepiece", ""),
        (other_model(pad_id=-1, unk_id=0, bos_id=1, eos_id=2), "other_ids", " -1, 2, 0 "),
    ],
    ids=["none", "empty", "text", "other ids"],
)
def test_files_that_are_no_vocabulary(tmp_path, content, code, name):
    path = tmp_path / "my.model"
    if content is not None:
        path.write_bytes(content)
    with refused(code, "my.model", name):
        SentencePieceTokenizer.load(path)


@pytest.mark.parametrize(
    ("options", "independent"),
    [
        ({"model_type": "bpe"}, True),
        ({"model_type": "unigram"}, True),
        ({"split_by_whitespace": False, "model_type": "bpe"}, False),
        ({"add_dummy_prefix": False}, False),
        ({"normalization_rule_name": "nmt_nfkc"}, False),
        ({"remove_extra_whitespaces": True}, False),
        ({"treat_whitespace_as_suffix": True}, False),
        ({"allow_whitespace_only_pieces": True, "model_type": "bpe"}, None),
        ({"user_defined_symbols": ["house\u2581stands"]}, False),
    ],
    ids=str,
)
def test_ids_are_the_library_s_whatever_the_model(monkeypatch, options, independent):
    monkeypatch.setattr(module, "MAX_WORDS", 20)  # So that the cache is emptied.
    model = other_model(**options)
    tokenizer = SentencePieceTokenizer(model)
    assert independent in (None, tokenizer.words_are_independent)
    reference = sentencepiece.SentencePieceProcessor(model_proto=model)
    expected = reference.encode(NUMBERED * 20 + SPACES, add_eos=True)
    for encode in (tokenizer.encode, tokenizer.encode_corpus):
        assert [ids.tolist() for ids in encode(NUMBERED * 20 + SPACES)] == expected


def test_pieces_are_spelled_by_a_model_that_drops_spaces():
    first, second = (
        SentencePieceTokenizer(other_model(**options))
        for options in (dict(remove_extra_whitespaces=True, vocab_size=290), dict(bos_id=3))
    )
    spelled, _ = first.spell(second)
    of_pieces = {piece: first.pieces(spelled[i]) for piece, i in second.vocabulary().items()}
    assert of_pieces.pop("<s>") == ["<unk>"]
    begin = [pieces[0] for piece, pieces in of_pieces.items() if piece[0] == "\u2581"]
    assert all(piece[0] == "\u2581" for piece in begin)


def test_a_piece_that_is_not_utf_8_is_refused():
    content = SentencePieceTokenizer.train(
        ["the house stands near a green tree"] * 9, 275
    ).model_bytes
    before, _, after = content.rpartition("\u2581".encode())
    with refused("not_sentencepiece"):
        SentencePieceTokenizer(before + b"\xe2(\x81" + after)


def test_rare_characters_are_no_pieces():
    """Of one character in 20,000 or fewer, the bytes are."""
    text = ["ab " * 1000] * 20 + ["\u6771" * 2, "\u897f" * 8]
    known = SentencePieceTokenizer.train(text, 275).vocabulary()
    assert [piece in known for piece in ("\u6771", "\u897f", "<0xE6>")] == [False, True, True]
    assert "\u6771" in SentencePieceTokenizer.train(text, 275, "char").vocabulary()
