"""`Problem`: a task, with its training text and the score of its outputs."""

import dataclasses
import functools
import random
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from t2t_keras.errors import UserError
from t2t_keras.registry import AUGMENTATIONS, METRICS, PAIR_TRANSFORMS, PROBLEMS
from t2t_keras.settings import as_text, json_value, override, setting, setting_fields
from t2t_keras.text.alignment import Alignment, align_by_attention
from t2t_keras.text.sources import CorpusInfo, ParallelFiles, PreparedText
from t2t_keras.text.tokenizer import VOCABULARY_KINDS, Tokenizer

Pair = tuple[str, str]
Change = Callable[[str, str, random.Random], Pair]


class Chunk(Protocol):
    """Some pairs of a split, which a worker encodes together; see also `CorpusInfo`."""

    @property
    def corpus(self) -> str:
        """Name of the corpus in `mix`."""

    @property
    def prefix(self) -> str:
        """Words before each source."""

    @property
    def languages(self) -> tuple[str, str] | None:
        """Codes of source and target; None = the problem's."""

    @property
    def symbols(self) -> frozenset[str]:
        """Words that must be single pieces of the vocabulary."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that hold the pairs."""

    @property
    def count(self) -> int:
        """Number of pairs, which may be an estimate."""

    def pairs(self, skip: int = 0, every: int = 1) -> Iterator[tuple[bytes, bytes]]:
        """Yields the source and target lines of every `every`-th pair, from pair `skip` on."""

    def location(self, index: int, side: int) -> str:
        """Returns "folder/file:line" for one side (0 source, 1 target) of pair `index`."""


class PairTransform:
    """Base class of transforms, which change training pairs; this class changes nothing.

    Attributes:
      artifact: name of the file in which t2t-datagen stores the result of `learn`; "" = none. The
        name begins with "train-" if training depends on the file.
      decoding: decoding settings that suit models trained on changed pairs, by name.
      raw_output: as `Problem.raw_output`, if `prepare` changes targets.
      augments: whether the transform has an `augmentation`.
    """

    artifact: ClassVar[str] = ""
    decoding: ClassVar[Mapping[str, Any]] = {}
    raw_output: ClassVar[str] = ""
    augments: ClassVar[bool] = False

    def symbols(self) -> Sequence[str]:
        """Returns words that must be single pieces of the vocabulary."""
        return ()

    def prepare(self, source: str, target: str) -> Pair:
        """Returns the sides of a training pair as the model reads them.

        A `LineStage` prepares lines to translate in the same way.
        """
        return source, target

    def learn(self, chunks: Sequence[Chunk]) -> bytes:
        """Returns the content of the artifact, learned from the training set's chunks."""
        return b""

    def augmentation(self, artifact: bytes) -> Change:
        """Returns the change that `Problem.augment` applies under the transform's name."""
        raise NotImplementedError(f"{type(self).__name__} has augments=True, but no augmentation.")


class Score(Protocol):
    """A score of outputs; its `str()` is a report."""

    @property
    def main(self) -> tuple[str, float]:
        """Name and value of the score to follow while training."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """Base of all problems; `registry.register_problem` gives a subclass its name.

    A subclass overrides either `files` (text in files) or `examples` (generated text), and sets the
    fields it changes. --problem_config can change fields made by `setting`; others are fixed.
    """

    source_language: str = setting("", "language code of the source, e.g. en")
    target_language: str = setting("", "language code of the target, e.g. de")
    vocab_size: int = setting(8000, "size of the vocabulary (section 5.1)", minimum=4)
    shared_vocabulary: bool = setting(
        True,
        "one vocabulary for source and target (section 5.1); false = one of vocab_size for each",
    )
    vocab_kind: str = setting(
        "bpe",
        "units of the vocabulary: bpe (section 5.1), unigram or char",
        choices=VOCABULARY_KINDS,
    )
    vocab_file: str = setting(
        "",
        "existing vocabulary to use, as for fine-tuning: a SentencePiece .model, "
        "tensor2tensor's .subwords, or .words",
        is_path=True,
    )
    source_vocab_file: str = setting(
        "", "existing vocabulary of the source, with shared_vocabulary=false", is_path=True
    )
    vocab_lines: int = setting(
        5_000_000,
        "maximum training lines per side, evenly spread, to learn the vocabulary from",
        minimum=1,
    )
    vocab_symbols: tuple[str, ...] = setting(
        (),
        "words that must be single pieces of the vocabulary, such as source_tokens that only "
        "later data uses",
    )
    max_pair_length: int = setting(
        512,
        "maximum tokens per side of a training pair, EOS included; longer pairs are left out "
        "and counted",
        minimum=2,
    )
    filters: tuple[str, ...] = setting(
        (),
        "kinds of training pairs to leave out and count: duplicates, identical (source = "
        "target), language (a wrong one), length_ratio, or a registered filter",
    )
    max_length_ratio: float = setting(
        3.0,
        "maximum ratio between the tokens of the two sides, for filters=length_ratio",
        minimum=1,
    )
    mix: tuple[Mapping[str, float], ...] = setting(
        (),
        "sampling shares of the corpora, in one or several stages, as [{clean: 0.8, web: 0.2}];"
        " or [{temperature: 5}] = in proportion to the fifth roots of their sizes",
    )
    mix_until: tuple[Mapping[str, float], ...] = setting(
        (), "end of each stage of mix except the last, in epochs of a corpus, as [{clean: 2}]"
    )
    augment: Mapping[str, float] = setting(
        {},
        "shares of training pairs to augment on the fly, as {upper: 0.05, typos: 0.1} (all "
        "kinds: --registry_help)",
    )
    transforms: tuple[str, ...] = setting(
        (),
        "preprocessing of training pairs: placeholders = replace them by symbols that "
        "translations keep; terms = mark term hints, for augment={terms: 0.3}; or a registered "
        "transform",
    )
    metrics: tuple[str, ...] = setting(
        (), "registered metrics to compute in addition to BLEU", of_test_set=True
    )
    name: str = ""
    reverse: bool = False

    # Settings that do not affect the generated data.
    non_data_settings: ClassVar[tuple[str, ...]] = ("metrics", "mix", "mix_until", "augment")
    # The splits of `examples`; problems with files have the splits that `files` returns.
    splits: ClassVar[tuple[str, ...]] = ("train", "dev", "test")
    # Whether the problem also exists in the other direction, as `<name>_rev`.
    reversible: ClassVar[bool] = True
    # The hyperparameter set that suits the problem; "" = chosen by the size of the data.
    hparams_set: ClassVar[str] = ""
    # Defaults that replace those of `DecodeConfig`, by the name of the setting.
    decoding: ClassVar[Mapping[str, Any]] = {}
    # Suffix of the file of postprocessed outputs; "" = outputs are not postprocessed.
    postprocessed_suffix: ClassVar[str] = ""
    # Whether `postprocess` and `score` need the result of `align`.
    postprocess_by_alignment: ClassVar[bool] = False
    # True for text, False for symbol sequences, which need a vocabulary of these symbols.
    is_plain_text: ClassVar[bool] = True
    # Conventions of BLEU, besides sacreBLEU's, that papers on the task use.
    conventions: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.reverse and not self.reversible:
            base = self.name.removesuffix("_rev")
            raise UserError(
                f"There is no problem '{self.name}': {base} has only one direction.",
                code="unknown_name",
            )
        for name in self.metrics:
            METRICS[name]  # Raises `UserError` if there is none.
        if self.pair_transforms and not self.is_plain_text:
            raise UserError(
                f"transforms={as_text(self.transforms)}: transforms are for text, but {self.name} "
                f"consists of symbols. Leave the transforms out.",
                code="conflicting_settings",
            )
        if self.augment:
            _check_augment(self.augment, self.pair_transforms)

    def files(self, tmp_dir: Path) -> Mapping[str, Sequence[ParallelFiles | PreparedText]]:
        """Returns the files of each split: "train", "dev" and, if it exists, "test".

        The source and target files are not swapped for `_rev`.
        """
        return {}

    def examples(self, split: str) -> Iterator[tuple[str, str]]:
        """Yields the (source, target) lines of a split, the same ones at every call."""
        raise NotImplementedError(f"{type(self).__name__} overrides neither files nor examples.")

    def chunks(self, tmp_dir: Path, chunk_pairs: int) -> Mapping[str, Sequence[Chunk]]:
        """Returns each split's chunks of at most `chunk_pairs`; {} = divide the problem's text."""
        return {}

    def corpus_info(self, text: ParallelFiles | PreparedText) -> CorpusInfo:
        """Returns the properties that all pairs of a text share."""
        return CorpusInfo(corpus=text.corpus_name)

    def preprocess(self, source: str) -> str:
        """Returns a line to translate in the form that the model reads."""
        return source

    def words_in_front(self, source: str) -> str:
        """Returns the control tokens for each sentence of a preprocessed line, such as "<2de> "."""
        return ""

    @functools.cached_property
    def pair_transforms(self) -> dict[str, PairTransform]:
        """The transforms by name, in the order of `transforms`."""
        return {name: PAIR_TRANSFORMS[name]() for name in self.transforms}

    @property
    def decoding_defaults(self) -> Mapping[str, Any]:
        """`decoding` and the defaults of the transforms."""
        defaults: dict[str, Any] = {}
        for transform in self.pair_transforms.values():
            defaults |= transform.decoding
        return defaults | dict(self.decoding)

    @property
    def raw_output(self) -> str:
        """Describes outputs before they are postprocessed, for users of an export; "" = text."""
        descriptions = (transform.raw_output for transform in self.pair_transforms.values())
        return " ".join(filter(None, descriptions))

    def prepare_pair(self, source: str, target: str) -> tuple[str, str]:
        """Returns a training pair changed by the transforms, before `preprocess`."""
        for transform in self.pair_transforms.values():
            source, target = transform.prepare(source, target)
        return source, target

    def align(self, target: Sequence[str], weights: np.ndarray) -> Alignment:
        """Aligns the words of an output by attention, float32 [target words, source words]."""
        return align_by_attention(target, weights)

    def postprocess(self, source: str, output: str, alignment: Alignment | None = None) -> str:
        """Returns a line's output in the form that users read.

        See `postprocessed_suffix` and `align`.
        """
        return output

    def postprocess_references(
        self, sources: Sequence[str], references: Sequence[str]
    ) -> Sequence[str]:
        """Returns references in the form of postprocessed outputs."""
        return references

    def load_vocabulary(self) -> Tokenizer | None:
        """Returns the vocabulary of `vocab_file` and `source_vocab_file`, None without them.

        Raises:
          UserError: a file cannot be read, or one of the two is missing.
        """
        if bool(self.source_vocab_file) != bool(self.vocab_file and not self.shared_vocabulary):
            raise UserError(
                "Expected both vocab_file and source_vocab_file with shared_vocabulary=false, and "
                "vocab_file alone with shared_vocabulary=true.",
                code="conflicting_settings",
            )
        return Tokenizer.load(self.vocab_file, self.source_vocab_file) if self.vocab_file else None

    def with_vocabulary(self, tokenizer: Tokenizer) -> Self:
        """Returns the problem, set up to postprocess and score outputs in this vocabulary."""
        return self

    def resolved(self, tmp_dir: Path) -> Self:
        """Returns the problem with "auto" settings resolved by the files in `tmp_dir`."""
        return self

    def text_name(self, split: str, lines: int) -> str:
        """Returns a name for the dev or test set with this number of lines; "" = `split`."""
        return ""

    @property
    def tokenize(self) -> str:
        """SacreBLEU's tokenisation for this text; "none" for text that is already tokenised."""
        return "13a"

    def languages(self) -> tuple[str, str]:
        """Returns (source, target) language, swapped by `_rev`."""
        pair = (self.source_language, self.target_language)
        return pair[::-1] if self.reverse else pair

    def config(self, of_test_set: bool = True) -> dict[str, Any]:
        """Returns every setting by name, or all but the settings of the test set."""
        return {
            name: json_value(getattr(self, name))
            for name, field in setting_fields(self).items()
            if of_test_set or not field.metadata["of_test_set"]
        }

    def score(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        sources: Sequence[str] = (),
        alignments: Sequence[Alignment | None] | None = None,
    ) -> Score:
        """Returns the score of outputs, by default BLEU.

        Args:
          hypotheses: outputs of the model, line by line.
          references: the correct outputs.
          sources: the inputs, for problems that need them.
          alignments: the alignment of each output, for `postprocess_by_alignment`.
        """
        # Imported here, since a machine that only trains may lack sacreBLEU.
        from t2t_keras.metrics import add_metrics, bleu

        language = self.languages()[1]
        score = bleu(hypotheses, references, self.tokenize, False, self.conventions, language)
        return add_metrics(score, self.metrics, hypotheses, references, sources)


def _check_augment(augment: Mapping[str, float], transforms: Container[str]) -> None:
    """Checks `Problem.augment` of a problem with these transforms.

    Raises:
      UserError: a transform is missing, a name is not registered, or the shares are not positive or
        exceed 1.
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
            f"augment={as_text(augment)}: expected positive shares of the pairs with a sum of at "
            f"most 1, such as {{typos: 0.1, upper: 0.05}}.",
            code="bad_value",
        )


def make_problem(name: str, config: str | Mapping[str, Any] = "") -> Problem:
    """Returns the problem called `name`; the ending `_rev` swaps its languages.

    Args:
      name: a registered name, with or without `_rev`.
      config: "name=value,..." or a mapping, as `--problem_config` takes it.

    Raises:
      UserError: there is no such problem, setting or reverse direction.
    """
    reverse = name.endswith("_rev") and name not in PROBLEMS
    problem_class = PROBLEMS[name.removesuffix("_rev") if reverse else name]
    default_problem = problem_class(name=name, reverse=reverse)
    return override(default_problem, config, noun=f"setting of problem {name}")
