"""The user's own parallel text."""

import dataclasses
from pathlib import Path

from t2t_keras.data.problem import ParallelFiles, Problem, SourceFile
from t2t_keras.errors import UserError
from t2t_keras.registry import register_problem


@register_problem
@dataclasses.dataclass(frozen=True)
class ParallelText(Problem):
    """Your own files: train.XX, dev.XX and, where there is one, test.XX in --tmp_dir.

    XX are the two languages, which --problem_config="source_language=en,target_language=de" gives:
    train.en, train.de, dev.en, dev.de. To fine-tune a model, give `vocab_file` the `vocab.model`
    that it was trained with.
    """

    def files(self, tmp_dir: Path) -> dict[str, list[ParallelFiles]]:
        """Returns the files; the test set is there if a test file is."""
        languages = (self.source_language, self.target_language)
        if not all(languages) or len(set(languages)) < 2:
            raise UserError(
                f"{self.name or 'parallel_text'} needs two languages; source_language="
                f"'{languages[0]}' and target_language='{languages[1]}' came. Give them as "
                f'--problem_config="source_language=en,target_language=de".'
            )
        splits = {}
        for split in ("train", "dev", "test"):
            names = [f"{split}.{language}" for language in languages]
            if split != "test" or any((tmp_dir / name).exists() for name in names):
                splits[split] = [ParallelFiles(*map(SourceFile, names))]
        return splits
