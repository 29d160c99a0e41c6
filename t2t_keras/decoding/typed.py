"""Translation of what is typed, line after line."""

import contextlib
from collections.abc import Callable, Iterable

from t2t_keras.decoding.translator import Translator


def translate_typed(
    translator: Translator,
    lines: Iterable[str],
    write_line: Callable[[str], None],
) -> None:
    """Translates line after line until there are no more or Ctrl-C is pressed.

    What stands behind a tab in a line is how its translation must begin. With `return_beams` or
    `write_beam_scores` every hypothesis is shown with its score.

    Args:
      translator: what translates.
      lines: what is typed.
      write_line: takes each line of an answer.
    """
    config = translator.config
    with contextlib.suppress(KeyboardInterrupt):
        for line in lines:
            source, _, prefix = line.partition("\t")
            [translation] = translator.translate([source], [prefix])
            if translation.cut:
                write_line(f"(The last {translation.cut:,} tokens were too much and are left out.)")
            if translation.prefix_cut:
                write_line(
                    f"(The last {translation.prefix_cut:,} tokens of the prefix are left out: an "
                    f"output may not be so long.)"
                )
            if config.return_beams or config.write_beam_scores:
                for hypothesis in translation.hypotheses:
                    write_line(f"{hypothesis.score:.4f}\t{hypothesis.text}")
            else:
                write_line(translation.finished)
