"""Vocabularies of words, whose definition is what Python's `split` does to ASCII's white space."""

import pickle

import numpy as np
import pytest
import tensorflow as tf
from refusals import refused

from t2t_keras.data.dataset import open_generated
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.interop.tokenizers import WordTokenizer
from t2t_keras.text.tokenizer import Tokenizer, vocabulary_settings

WORDS = ["<blank>", "</s>", "<unk>", "a", "b@@", "c", "\u2028", "x\u00a0y"]
LINES = ["a b@@ c", "", " a\t\x0b c ", "no no a", "</s> <unk> <blank>", "\u2028 x\u00a0y a\u2028c"]
VOCABULARIES = {"vocab_file": "de", "source_vocab_file": "en"}
IDS = [[3, 4, 5, 1], [1], [3, 5, 1], [2, 2, 3, 1], [2, 2, 2, 1], [6, 7, 2, 1]]


def test_lines_and_ids(tmp_path):
    WordTokenizer.of(WORDS).save(tmp_path)
    tokenizer = Tokenizer.load(tmp_path / "vocab.words")
    assert tokenizer.vocab_size == len(WORDS)
    in_graph = tokenizer.graph_tokenizer()
    assert [ids.tolist() for ids in tokenizer.encode(LINES)] == IDS
    assert in_graph.tokenize(tf.constant(LINES)).to_list() == IDS
    rows = np.array([[3, 2, 4, 1, 5], [0, 5, 0, 7, 0], [1, 3, 3, 3, 3]], np.int32)
    texts = ["a <unk> b@@", "c x\u00a0y", ""]
    assert tokenizer.decode(rows) == texts
    assert [text.decode() for text in in_graph.detokenize(tf.constant(rows)).numpy()] == texts
    pieces = ["\u2581a", "\u2581<unk>", "</s>"]
    assert tokenizer.pieces([3, 2, 1]) == pieces
    assert [
        piece.decode() for piece in in_graph.pieces(tf.constant([[3, 2, 1]])).numpy()[0]
    ] == pieces


def test_sources_with_a_vocabulary_of_their_own(tmp_path):
    target, source = WordTokenizer.of(WORDS), WordTokenizer.of(WORDS[:-1])
    both = target.with_source(source)
    both.save(tmp_path)
    for again in (Tokenizer.load_saved(tmp_path, both.record()), pickle.loads(pickle.dumps(both))):
        assert again.source.model_bytes == source.model_bytes
        assert again.checksum == both.checksum
    with refused(
        "other_vocabulary", "vocab.words", " 99 ids ", f" {len(WORDS)} with {both.checksum[:12]}"
    ):
        Tokenizer.load_saved(tmp_path, both.record() | {"size": 99})
    assert len({tokenizer.checksum for tokenizer in (both, target, source)}) == 3
    files = f"vocab_file={tmp_path}/vocab.words", f"source_vocab_file={tmp_path}/vocab.source.words"
    assert vocabulary_settings(tmp_path, both) == ",".join([*files, "shared_vocabulary=false"])
    assert vocabulary_settings(tmp_path, target) == files[0]


def test_a_source_of_more_words_than_16_bits_count(tmp_path, pairs_of):
    words = [f"w{number}" for number in range(65_600)]
    for code, vocabulary in (("en", words), ("de", words[:1])):
        WordTokenizer.of(["<pad>", "</s>", "<unk>", *vocabulary]).save(tmp_path / code)
        for split in ("train", "dev"):
            (tmp_path / f"{split}.{code}").write_text(f"{vocabulary[0]} {vocabulary[-1]}\n")
    files = (f"{name}={tmp_path}/{code}/vocab.words" for name, code in VOCABULARIES.items())
    settings = ",".join(["source_language=en,target_language=de,shared_vocabulary=false", *files])
    problem = make_problem("parallel_text", settings)
    generate(problem, tmp_path / "data", tmp_path)
    generated = open_generated(problem, tmp_path / "data")
    assert pairs_of(generated, "train") == [("w0 w65599", "w0 w0")]


@pytest.mark.parametrize(
    ("content", "code"), [(b"<pad>\n</s>\n", "not_a_vocabulary"), (b"\xff", "not_utf8")]
)
def test_what_is_no_vocabulary(content, code):
    with refused(code):
        WordTokenizer(content)
