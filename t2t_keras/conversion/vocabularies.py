"""Vocabularies of other toolkits as SentencePiece models with our ids."""

from collections.abc import Sequence
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.text.sentence_pieces import BEYOND, SentencePieceTokenizer
from t2t_keras.text.tokenizer import EOS_ID, PADDING_ID, UNKNOWN_ID


def joint_pieces(
    model_bytes: bytes, pieces: Sequence[str], origin: str | Path
) -> SentencePieceTokenizer:
    """Returns a SentencePiece model that divides texts as another, into pieces with given ids.

    What the other divides off is looked up, whether it is a piece of it or characters that it does
    not know; what is not found becomes the unknown id. All given pieces are decoded.

    Args:
      model_bytes: the other's `.model` or `.spm` file.
      pieces: the pieces by id, after those of padding, end and unknown at 0, 1 and 2.
      origin: the file, for errors.
    """
    from sentencepiece import sentencepiece_model_pb2 as protobuf

    try:
        model = protobuf.ModelProto.FromString(model_bytes)
    except Exception as error:
        raise UserError(f"{origin} is not a SentencePiece model: {error}.") from error
    kinds = protobuf.ModelProto.SentencePiece
    known = {piece.piece: piece for piece in model.pieces}
    lowest = min((piece.score for piece in model.pieces), default=0.0)
    del model.pieces[:]
    special = {PADDING_ID: kinds.CONTROL, EOS_ID: kinds.CONTROL, UNKNOWN_ID: kinds.UNKNOWN}
    for i, text in enumerate(pieces):
        own = known.pop(text, None)
        if i in special:
            model.pieces.add(piece=text, score=0.0, type=special[i])
        elif text.startswith(">>") and text.endswith("<<"):
            # The language to translate to, in front of a text.
            model.pieces.add(piece=f"\u2581{text}", score=0.0, type=kinds.USER_DEFINED)
        elif own is not None and own.type != kinds.UNKNOWN:
            model.pieces.add().CopyFrom(own)
        else:
            model.pieces.add(piece=text, score=lowest, type=kinds.UNUSED)
    beyond = [piece for piece in known.values() if piece.type not in (kinds.CONTROL, kinds.UNKNOWN)]
    if beyond or any(piece.type == kinds.UNUSED for piece in model.pieces):
        model.pieces.add(piece=BEYOND, score=0.0, type=kinds.CONTROL)
        for piece in beyond:
            model.pieces.add().CopyFrom(piece)
    _set_ids(model, pieces)
    return SentencePieceTokenizer(model.SerializeToString(), origin=str(origin))


def words(pieces: Sequence[str]) -> SentencePieceTokenizer:
    """Returns a vocabulary whose pieces are words: what stands between two spaces.

    Args:
      pieces: the words by id, after those of padding, end and unknown at 0, 1 and 2.
    """
    from sentencepiece import sentencepiece_model_pb2 as protobuf

    kinds = protobuf.ModelProto.SentencePiece
    special = {PADDING_ID: kinds.CONTROL, EOS_ID: kinds.CONTROL, UNKNOWN_ID: kinds.UNKNOWN}
    model = protobuf.ModelProto()
    for i, text in enumerate(pieces):
        piece = text if i in special else f"\u2581{text}"
        model.pieces.add(piece=piece, score=-float(i), type=special.get(i, kinds.NORMAL))
    model.trainer_spec.model_type = protobuf.TrainerSpec.WORD
    _set_ids(model, pieces)
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = True
    model.normalizer_spec.remove_extra_whitespaces = True
    model.normalizer_spec.escape_whitespaces = True
    return SentencePieceTokenizer(model.SerializeToString())


def _set_ids(model, pieces: Sequence[str]) -> None:
    spec = model.trainer_spec
    spec.pad_id, spec.eos_id, spec.unk_id, spec.bos_id = PADDING_ID, EOS_ID, UNKNOWN_ID, -1
    spec.pad_piece, spec.eos_piece, spec.unk_piece = pieces[:3]
    spec.vocab_size = len(model.pieces)
