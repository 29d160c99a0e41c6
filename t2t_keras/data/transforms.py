"""Transforms of training pairs, chosen by `Problem.transforms`: a seam."""

import random
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, ClassVar

from t2t_keras.errors import UserError
from t2t_keras.registry import AUGMENTATIONS, PAIR_TRANSFORMS
from t2t_keras.settings import as_text

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


def check_augment(augment: Mapping[str, float], transforms: Container[str]) -> None:
    """Checks `Problem.augment`, of a problem with these transforms.

    Raises:
      UserError: it needs a transform that is not there, a name is not registered, or the shares are
        not positive or exceed 1.
    """
    for kind in augment:
        if kind in PAIR_TRANSFORMS and PAIR_TRANSFORMS[kind].augments:
            if kind not in transforms:
                raise UserError(
                    f"augment={as_text(augment)}: {kind} needs transforms={kind} as well, here and "
                    f"in t2t-datagen.",
                    code="conflicting_settings",
                )
        else:
            AUGMENTATIONS[kind]  # Raises `UserError` if there is none.
    if not all(share > 0 for share in augment.values()) or sum(augment.values()) > 1 + 1e-9:
        raise UserError(
            f"augment={as_text(augment)}: expected positive shares of the pairs, at most 1 "
            f"together, as {{typos: 0.1, upper: 0.05}}.",
            code="bad_value",
        )
