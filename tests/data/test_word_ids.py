import io

import pytest
import sentencepiece

from t2t_keras.data import word_ids
from t2t_keras.data.tokenizer import Tokenizer
from t2t_keras.data.word_ids import words_are_independent

LINES = [f"the house {n} stands  near the tree {n * n}, as it did" for n in range(60)]
ODD = ["", " ", "   ", " a", "a ", "a\u2581b \u2581", "the\tthe", "\u00a0the", "new words here"]


def trained(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_writer=model,
        minloglevel=2,
        **{
            "vocab_size": 330,
            "pad_id": 0,
            "eos_id": 1,
            "unk_id": 2,
            "bos_id": -1,
            "byte_fallback": True,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            **options,
        },
    )
    return model.getvalue()


def reference(model, lines):
    return sentencepiece.SentencePieceProcessor(model_proto=model).encode(lines, add_eos=True)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_lines_are_their_words(monkeypatch, kind):
    monkeypatch.setattr(word_ids, "_WORDS_KEPT", 20)
    monkeypatch.setattr(word_ids, "_LINES_AT_ONCE", 7)
    model = trained(model_type=kind, hard_vocab_limit=False)
    assert words_are_independent(model)
    tokenizer = Tokenizer(model)
    for _ in range(2):
        encoded = tokenizer.encode(LINES + ODD)
        assert [ids.tolist() for ids in encoded] == reference(model, LINES + ODD)


@pytest.mark.parametrize(
    "options",
    [
        {"split_by_whitespace": False, "model_type": "bpe"},
        {"add_dummy_prefix": False},
        {"normalization_rule_name": "nmt_nfkc"},
        {"remove_extra_whitespaces": True},
        {"treat_whitespace_as_suffix": True},
        {"allow_whitespace_only_pieces": True, "model_type": "bpe"},
        {"user_defined_symbols": ["house stands".replace(" ", "\u2581")]},
    ],
    ids=str,
)
def test_vocabularies_for_which_they_are_not(options):
    model = trained(**{"model_type": "unigram", "hard_vocab_limit": False, **options})
    if "allow_whitespace_only_pieces" not in options:
        assert not words_are_independent(model)
    encoded = Tokenizer(model).encode(LINES + ODD)
    assert [ids.tolist() for ids in encoded] == reference(model, LINES + ODD)
