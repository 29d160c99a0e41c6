"""Transforms of training pairs, chosen by `Problem.transforms`: a seam."""

import random
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, ClassVar

from t2t_keras.errors import UserError
from t2t_keras.registry import PAIR_TRANSFORMS

Pair = tuple[str, str]
Change = Callable[[str, str, random.Random], Pair]


class PairTransform:
    """Something that is done to the pairs of training text; this base class does nothing.

    Attributes:
      artifact: name of the file in which t2t-datagen stores what `learn` returns; "" = none. It
        begins with "train-" where a training depends on it.
      decoding: decoding settings that suit models of such data, by name.
      raw_output: as `Problem.raw_output`, where `prepare` changes targets.
      augments: whether there is an `augmentation`.
    """

    artifact: ClassVar[str] = ""
    decoding: ClassVar[Mapping[str, Any]] = {}
    raw_output: ClassVar[str] = ""
    augments: ClassVar[bool] = False

    def symbols(self) -> Sequence[str]:
        """Returns words that are one piece of the vocabulary."""
        return ()

    def prepare(self, source: str, target: str) -> Pair:
        """Returns the sides of a pair as the model is to see them.

        Lines that are translated do not come here: a `LineStage` prepares them alike.
        """
        return source, target

    def learn(self, chunks: Sequence) -> bytes:
        """Returns the content of the artifact, learned from the training set's chunks."""
        return b""

    def augmentation(self, artifact: bytes) -> Change:
        """Returns the kind of `Problem.augment` that has the transform's name."""
        raise NotImplementedError(f"{type(self).__name__} says that it augments, and does not.")


def check_augmented(augment: str, kind: str, transforms: Container[str]) -> None:
    """Raises `UserError` if a kind of `Problem.augment` needs a transform that is not there."""
    if kind in PAIR_TRANSFORMS and kind not in transforms and PAIR_TRANSFORMS[kind].augments:
        raise UserError(
            f"augment={augment}: {kind} needs transforms={kind} as well, here and in t2t-datagen.",
            code="conflicting_settings",
        )
