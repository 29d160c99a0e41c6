"""Translation of lines as a user types them."""

import contextlib
from collections.abc import Callable, Iterable

from t2t_keras.decoding.translator import Translator
from t2t_keras.io.terminal import printable


def translate_interactively(
    translator: Translator,
    lines: Iterable[str],
    write_line: Callable[[str], object],
) -> None:
    """Translates line after line until there are no more or Ctrl-C is pressed.

    A line may have a tab, and behind it the prefix with which its translation must begin. With
    `return_beams` or `write_beam_scores` all hypotheses are shown with their scores.

    `write_line` takes each line of an answer, without characters that control a terminal.
    """
    config = translator.config
    with contextlib.suppress(KeyboardInterrupt):
        for line in lines:
            source, _, prefix = line.partition("\t")
            [translation] = translator.translate([source], [prefix])
            if translation.cut:
                write_line(f"(The line is too long: its last {translation.cut:,} tokens are cut.)")
            if translation.prefix_cut:
                write_line(
                    f"(The prefix is longer than an output may be: its last "
                    f"{translation.prefix_cut:,} tokens are cut.)"
                )
            if config.return_beams or config.write_beam_scores:
                for hypothesis in translation.hypotheses:
                    write_line(f"{hypothesis.score:.4f}\t{printable(hypothesis.text)}")
            else:
                write_line(printable(translation.postprocessed))
