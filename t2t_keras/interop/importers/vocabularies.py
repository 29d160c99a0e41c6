"""Vocabularies of other toolkits with our ids."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError, brief
from t2t_keras.interop.importers.files import read_file
from t2t_keras.interop.tokenizers.pieces import BEYOND, LookedUpPieces
from t2t_keras.interop.tokenizers.words import WordTokenizer
from t2t_keras.special_ids import EOS_ID, PADDING_ID, SPACE, UNKNOWN_ID
from t2t_keras.text.tokenizer import SentencePieceTokenizer, Tokenizer, parsed_model


def named_files(vocabulary: str | Path) -> tuple[list[Path], list[Path]]:
    """Returns the SentencePiece models, and the others, of files with a comma between."""
    return by_kind([Path(file.strip()) for file in str(vocabulary).split(",") if file.strip()])


def by_kind(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Returns the SentencePiece models among files, and the others."""
    models = [file for file in files if file.suffix in (".model", ".spm")]
    return models, [file for file in files if file not in models]


def listed_pieces(
    source: Sequence[str], target: Sequence[str], models: Sequence[Path], origin: str | Path
) -> Tokenizer:
    """Returns the vocabulary of a toolkit whose users segment text before they give it.

    Args:
      source: the pieces by id, after those of padding, end and unknown at 0, 1 and 2.
      target: those of the target; equal ones are one vocabulary.
      models: SentencePiece models that segment text, one, or those of source and target; none =
        the text is segmented already, and pieces are words.
      origin: where the pieces are from, for errors.

    Raises:
      UserError: the pieces are SentencePiece's, and there is no model; or it cannot be read.
    """
    if not models and any(piece.startswith(SPACE) for piece in (*source, *target)):
        raise UserError(
            f"{origin} has pieces of SentencePiece: give the .model file that makes them as well, "
            f"with --vocabulary.",
            code="no_vocabulary",
        )

    def made(pieces: Sequence[str], model: Path | None) -> Tokenizer:
        if model is None:
            return WordTokenizer.of(pieces)
        return joint_pieces(read_file(model), pieces, model)

    first, last = (models[0], models[-1]) if models else (None, None)
    tokenizer = made(target, last)
    same = list(source) == list(target) and first == last
    return tokenizer if same else tokenizer.with_source(made(source, first))


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

    Raises:
      UserError: it is no such file, or has other pieces than those given.
    """
    try:
        model = parsed_model(model_bytes)
    except Exception as error:
        raise UserError(
            f"{origin} is not a SentencePiece model: {brief(error)}.", code="not_sentencepiece"
        ) from error
    normal = {piece.piece for piece in model.pieces if piece.type == piece.NORMAL}
    _check_pieces(normal, pieces[UNKNOWN_ID + 1 :], origin)
    kinds = type(model).SentencePiece
    known = {piece.piece: piece for piece in model.pieces}
    lowest = min((piece.score for piece in model.pieces), default=0.0)
    del model.pieces[:]
    special = {PADDING_ID: kinds.CONTROL, EOS_ID: kinds.CONTROL, UNKNOWN_ID: kinds.UNKNOWN}
    taken = set()
    for i, text in enumerate(pieces):
        # As "<unk>" that is also in the text.
        text = f"{text}#{i}" if text in taken else text
        taken.add(text)
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
    kind: type[SentencePieceTokenizer] = SentencePieceTokenizer
    if beyond or any(piece.type == kinds.UNUSED for piece in model.pieces):
        kind = LookedUpPieces
        model.pieces.add(piece=BEYOND, score=0.0, type=kinds.CONTROL)
        for piece in beyond:
            model.pieces.add().CopyFrom(piece)
    _set_ids(model, pieces)
    return kind(model.SerializeToString(), origin=str(origin))


def _check_pieces(own: Iterable[str], given: Iterable[str], origin: str | Path) -> None:
    """Refuses another model than the one that made given pieces.

    The vocabulary of two languages has another model's pieces as well, and that of one language a
    part of a joint model's: the fewer are among the more. In 8,000 pieces of Europarl all are, of
    models of other lines or kinds 58% at most. Single characters are in most models.
    """
    if not own:
        raise UserError(
            f"{origin} is not a SentencePiece model: it has no pieces.", code="not_sentencepiece"
        )
    own, given = ({piece for piece in each if len(piece) > 1} for each in (own, given))
    fewer, known = min(len(own), len(given)), len(own & given)
    if known < 0.75 * fewer:
        raise UserError(
            f"{origin} is not the model that made these pieces: it has {len(own):,}, the list "
            f"{len(given):,} of more than one character, and only {known:,} are the same.",
            code="other_vocabulary",
        )


def _set_ids(model: Any, pieces: Sequence[str]) -> None:
    spec = model.trainer_spec
    spec.pad_id, spec.eos_id, spec.unk_id, spec.bos_id = PADDING_ID, EOS_ID, UNKNOWN_ID, -1
    spec.pad_piece, spec.eos_piece, spec.unk_piece = pieces[:3]
    spec.vocab_size = len(model.pieces)
