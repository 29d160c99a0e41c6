"""Your own text in several pairs of languages, for one model."""

import re
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.problems.parallel_text import ParallelText
from t2t_keras.registry import register_problem
from t2t_keras.settings import as_text, setting
from t2t_keras.text.sources import CorpusInfo, ParallelFiles, PreparedText


@register_problem
class MultilingualText(ParallelText):
    """Your own files in several languages; a token before the source, as <2de>, names the target.

    The names of texts end in their languages, source first: --problem_config="train=[news.en-de,
    news.en-fr],dev=[dev.en-de, dev.en-fr]" reads news.en-de.en, news.en-de.de, and so on. Each
    source gets a token for its target language in front (Johnson et al., 2017). Lines to translate
    without such a token are translated to `target_language`.
    """

    source_language: str = ""
    target_language: str = setting(
        "", "target language of lines that do not begin with a language token, such as <2fr>"
    )

    test: tuple[str, ...] = setting(
        (), "test files without their endings, e.g. news.en-de; [] = no test set", of_test_set=True
    )

    # The languages cannot be swapped: the names of the texts determine them.
    reversible = False
    language_in_front = re.compile(r"<2\w+>\s")

    def files(self, tmp_dir: Path) -> dict[str, list[ParallelFiles]]:
        """See `Problem`."""
        targets = {_languages(stem)[1] for stem in self.train}
        if self.target_language not in targets:
            raise UserError(
                f"{self.name or 'multilingual_text'}: expected target_language to be one of "
                f"{', '.join(sorted(targets))}, the target languages of train="
                f"{as_text(self.train)}; got '{self.target_language}'.",
                code="bad_value",
            )
        return self._files(tmp_dir, _languages)

    def corpus_info(self, text: ParallelFiles | PreparedText) -> CorpusInfo:
        """See `Problem`."""
        info = super().corpus_info(text)
        prefix = f"<2{text.languages[1]}> {info.prefix}".strip()
        return CorpusInfo(corpus=info.corpus, prefix=prefix, languages=text.languages)

    def preprocess(self, source: str) -> str:
        """Returns a line with the target language in front."""
        return source if self.words_in_front(source) else f"<2{self.target_language}> {source}"


def _languages(stem: str) -> tuple[str, str]:
    match = re.search(r"\.(\w+)-(\w+)$", stem)
    if not match or match[1] == match[2]:
        raise UserError(
            f"multilingual_text: expected names of texts that end in two languages, such as "
            f"news.en-de, got '{stem}'.",
            code="bad_value",
        )
    return match[1], match[2]
