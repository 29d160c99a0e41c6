from refusals import refused

from t2t_keras.interop.importers.weights import lookup_tokenizer
from t2t_keras.interop.tokenizers import LookedUpPieces
from t2t_keras.special_ids import UNKNOWN_ID
from t2t_keras.text.tokenizer import Tokenizer


def test_pieces_that_are_not_in_the_list_are_unknown(tokenizer, tmp_path):
    listed = tokenizer.pieces(range(tokenizer.vocab_size - 9))
    looked_up = lookup_tokenizer(tokenizer.model_bytes, listed, "it")
    file = looked_up.record()["file"]
    looked_up.save(tmp_path)
    loaded = Tokenizer.load(tmp_path / file)
    assert type(loaded) is LookedUpPieces
    assert (loaded.vocab_size, loaded.record()) == (len(listed), looked_up.record())
    ids = tokenizer.encode(["The dog sleeps.", *tokenizer.vocabulary()])
    expected = [[i if i < len(listed) else UNKNOWN_ID for i in row] for row in ids]
    lines = ["The dog sleeps.", *tokenizer.vocabulary()]
    assert [row.tolist() for row in loaded.encode(lines)] == expected
    assert loaded.graph_tokenizer().tokenize(lines).to_list() == expected


def test_a_model_without_a_list_is_refused(tokenizer, tmp_path):
    (tmp_path / "x.pieces").write_bytes(tokenizer.model_bytes)
    with refused("not_a_vocabulary", "x.pieces", "<beyond>"):
        Tokenizer.load(tmp_path / "x.pieces")
