"""Multi30k: 29,000 image captions in English, German and French (Elliott et al., 2016)."""

import dataclasses
from pathlib import Path
from typing import ClassVar, Self

from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError
from t2t_keras.registry import register_problem
from t2t_keras.settings import setting
from t2t_keras.text.sources import ParallelFiles, SourceFile, downloads

# Parts of the file names by text form: train.en, train.lc.norm.tok.en.
_INFIXES = {"raw": "", "tok": ".lc.norm.tok"}
_SPLITS = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
# Sizes and checksums are of the decompressed files.
_RAW_FILES = downloads(Path(__file__).with_name("downloads.tsv"))


@dataclasses.dataclass(frozen=True)
class _Multi30k(Problem):
    """Base of both language pairs.

    --tmp_dir has the raw files (train.en, val.en, test_2016_flickr.en, ...), which are downloaded
    if missing, or the lower-cased, tokenised ones (train.lc.norm.tok.en, ...).
    """

    source_language: str = "en"
    vocab_size: int = setting(
        10_000, "size of the shared vocabulary, as in Wu et al. (2021)", minimum=4
    )
    text_form: str = setting(
        "auto",
        "text to use: raw; tok = lower-cased and tokenised, as in most papers; auto = the form "
        "whose files are in --tmp_dir",
        choices=("auto", "raw", "tok"),
    )

    hparams_set: ClassVar[str] = "transformer_multi30k"

    def files(self, tmp_dir: Path) -> dict[str, list[ParallelFiles]]:
        """Returns the files of the text form."""
        names = self._names(self.resolved(tmp_dir).text_form)
        files = (_RAW_FILES.get(name, SourceFile(name)) for name in names)
        return {split: [ParallelFiles(next(files), next(files))] for split in _SPLITS}

    def resolved(self, tmp_dir: Path) -> Self:
        """Chooses the text form by the files that are present; raw files can be downloaded."""
        if self.text_form != "auto":
            return self
        present_forms = [
            form for form in _INFIXES if any((tmp_dir / n).exists() for n in self._names(form))
        ]
        if len(present_forms) > 1:
            raise UserError(
                f"{tmp_dir} has Multi30k both raw (train.en) and tokenised (train.lc.norm.tok.en). "
                f"Choose --problem_config=text_form=raw or --problem_config=text_form=tok.",
                code="ambiguous_files",
            )
        return dataclasses.replace(self, text_form=present_forms[0] if present_forms else "raw")

    @property
    def tokenize(self) -> str:
        """SacreBLEU's tokenisation: "none" for tokenised text."""
        if self.text_form == "auto":
            raise UserError(
                f"The score of {self.name} depends on the form of its text. Choose "
                f"--problem_config=text_form=raw or --problem_config=text_form=tok.",
                code="missing_setting",
            )
        return "none" if self.text_form == "tok" else "13a"

    def _names(self, form: str) -> list[str]:
        """Returns the file names of a text form, source before target, split after split."""
        infix, languages = _INFIXES[form], (self.source_language, self.target_language)
        return [f"{stem}{infix}.{code}" for stem in _SPLITS.values() for code in languages]


@register_problem
class TranslateEndeMulti30k(_Multi30k):
    """Image captions, English to German: 29,000 pairs, dev 1,014, test_2016_flickr 1,000."""

    target_language: str = "de"


@register_problem
class TranslateEnfrMulti30k(_Multi30k):
    """Image captions, English to French: 29,000 pairs, dev 1,014, test_2016_flickr 1,000."""

    target_language: str = "fr"
