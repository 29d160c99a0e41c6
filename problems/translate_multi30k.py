"""Multi30k: 29,000 image captions in English, German and French (Elliott et al., 2016)."""

import dataclasses
from pathlib import Path

from t2t_keras.data.problem import Problem
from t2t_keras.errors import UserError
from t2t_keras.registry import register_problem
from t2t_keras.settings import setting
from t2t_keras.text.sources import ParallelFiles, SourceFile

_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/{name}.gz"
_MIDDLES = {"raw": "", "tok": ".lc.norm.tok"}
_SPLITS = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
# Unpacked: name, bytes, SHA-256.
_RAW_FILES = """
train.en 1801238 460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6
val.en 63297 1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227
test_2016_flickr.en 62076 399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182
train.de 2110398 2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72
val.de 75981 660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660
test_2016_flickr.de 70649 4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16
train.fr 2111303 5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d
val.fr 73924 5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc
test_2016_flickr.fr 72261 cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6
"""
_RAW = {
    name: SourceFile(name, _URL.format(name=name), int(size), sha256)
    for name, size, sha256 in map(str.split, _RAW_FILES.strip().splitlines())
}


@dataclasses.dataclass(frozen=True)
class _Multi30k(Problem):
    """Both language pairs.

    In --tmp_dir stand the raw files (train.en, val.en, test_2016_flickr.en, ...; downloaded where
    they are missing) or the lower-cased, tokenised ones (train.lc.norm.tok.en, ...).
    """

    source_language: str = "en"
    vocab_size: int = setting(
        10_000, "ids of the shared vocabulary, as Wu et al. (2021)", minimum=4
    )
    text_form: str = setting(
        "auto",
        "raw text, tok (lower-cased, tokenised: BLEU as most papers give it), or auto: the one "
        "whose files are in --tmp_dir",
        choices=("auto", "raw", "tok"),
    )

    def files(self, tmp_dir: Path) -> dict[str, list[ParallelFiles]]:
        """Returns the files of the text form."""
        names = self._names(self.resolved(tmp_dir).text_form)
        files = (_RAW.get(name, SourceFile(name)) for name in names)
        return {split: [ParallelFiles(next(files), next(files))] for split in _SPLITS}

    def resolved(self, tmp_dir: Path) -> Problem:
        """Decides the text form by the files that are there; raw ones can be downloaded."""
        if self.text_form != "auto":
            return self
        there = [
            form for form in _MIDDLES if any((tmp_dir / n).exists() for n in self._names(form))
        ]
        if len(there) > 1:
            raise UserError(
                f"{tmp_dir} has Multi30k raw (train.en) and tokenised (train.lc.norm.tok.en). "
                f"Say which: --problem_config=text_form=raw or --problem_config=text_form=tok."
            )
        return dataclasses.replace(self, text_form=there[0] if there else "raw")

    @property
    def tokenize(self) -> str:
        """Tokenised text is scored as it stands."""
        if self.text_form == "auto":
            raise UserError(
                f"How to score {self.name} depends on the form of its text. Say which: "
                f"--problem_config=text_form=raw or --problem_config=text_form=tok."
            )
        return "none" if self.text_form == "tok" else "13a"

    def _names(self, form: str) -> list[str]:
        """Returns the file names of a text form, source before target, split after split."""
        middle, languages = _MIDDLES[form], (self.source_language, self.target_language)
        return [f"{stem}{middle}.{code}" for stem in _SPLITS.values() for code in languages]


@register_problem
class TranslateEndeMulti30k(_Multi30k):
    """Image captions, English to German: 29,000 pairs, dev 1,014, test_2016_flickr 1,000."""

    target_language: str = "de"


@register_problem
class TranslateEnfrMulti30k(_Multi30k):
    """Image captions, English to French: 29,000 pairs, dev 1,014, test_2016_flickr 1,000."""

    target_language: str = "fr"
