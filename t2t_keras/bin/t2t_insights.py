r"""Shows where a model looks: translations, other hypotheses and all attention, on one HTML page.

t2t-insights --output_dir=runs/averaged --sentence="A man sleeps."
t2t-insights --output_dir=runs/averaged --sentences_from_file=news.en --page=news.html
t2t-insights --output_dir=runs/averaged --sentence="A man sleeps." \
    --figure=attention.svg --figure_kind=encoder --figure_layer=4 --figure_heads=0,1

Layers and heads are counted from 0. Figures need matplotlib: pip install 't2t-keras[figures]'.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from absl import flags as absl_flags

from t2t_keras.bin.flags import FlagValues, run_command
from t2t_keras.data.atomic_file import check_parent
from t2t_keras.data.text_files import is_text, read_text
from t2t_keras.errors import UserError

_OF_FIGURES = ("figure_kind", "figure_layer", "figure_heads")


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags."""

    def text(name: str, meaning: str) -> None:
        absl_flags.DEFINE_string(name, "", meaning, flag_values=flags)

    text("sentence", "The sentence to translate.")
    text("sentences_from_file", "Or a file of them, one a line.")
    text("page", "The HTML file; default: insights.html in --output_dir.")
    text("checkpoint_path", "Path prefix of a checkpoint; default: the newest of --output_dir.")
    text("decode_hparams", 'Decoding settings, "beam_size=4,samples=5,...".')
    text("figure", "Also a figure of one layer: a file that ends in .svg, .png or .pdf.")
    absl_flags.DEFINE_enum(
        "figure_kind",
        "cross",
        ("encoder", "decoder", "cross"),
        "Self-attention of the encoder or decoder, or attention from decoder to encoder.",
        flag_values=flags,
    )
    absl_flags.DEFINE_integer(
        "figure_layer", None, "Which layer, from 0; default: the last.", 0, flag_values=flags
    )
    text("figure_heads", 'Which heads, from 0, "0,1"; default: all.')


def main(flags: FlagValues) -> None:
    """Translates and shows as the flags say."""
    from t2t_keras.bin.recorded_run import recorded_run
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.insights.attention_page import write_attention_page
    from t2t_keras.insights.sentence_insights import sentence_insights

    record = recorded_run(flags)
    sentences = _sentences(flags)
    figure = _figure(flags, record, sentences)
    page = Path(flags.page or Path(flags.output_dir) / "insights.html")
    _check_files(flags, {"page": page, **({"figure": Path(flags.figure)} if figure else {})})
    translator = Translator.from_run(
        flags.output_dir, flags.checkpoint_path, _decode_settings(flags)
    )
    found = sentence_insights(translator, sentences)
    size = write_attention_page(page, found)
    plural = "s" if len(found) > 1 else ""
    print(f"{page}: {len(found):,} sentence{plural}, {size / 1e6:.2f} MB")
    if figure:
        _write_figure(flags.figure, found[0].attention, flags.figure_kind, *figure)


def _sentences(flags: FlagValues) -> list[str]:
    """Returns what shall be translated; says how many blank lines are left out."""
    if bool(flags.sentence) == bool(flags.sentences_from_file):
        raise UserError("Give one of --sentence and --sentences_from_file.")
    if not is_text(flags.sentence):
        raise UserError("--sentence is not UTF-8: give it as UTF-8.")
    lines = [flags.sentence] if flags.sentence else read_text(flags.sentences_from_file)
    sentences = [line for line in lines if line.strip()]
    if not sentences:
        raise UserError(
            f"There is nothing to translate: {flags.sentences_from_file or '--sentence'} is blank."
        )
    if blank := len(lines) - len(sentences):
        print(f"{blank:,} blank lines are left out.")
    return sentences


def _figure(flags: FlagValues, record, sentences: Sequence[str]) -> tuple[int, list[int]] | None:
    """Returns layer and heads of the figure, checked; None where there is no --figure."""
    if not flags.figure:
        if given := [f"--{name}" for name in _OF_FIGURES if flags[name].present]:
            raise UserError(f"{' and '.join(given)} have no meaning without --figure.")
        return None
    if len(sentences) > 1:
        raise UserError(
            f"--figure shows one sentence; {flags.sentences_from_file} has {len(sentences):,}."
        )
    from t2t_keras.insights.figures import check_figure_file, check_layer_and_heads

    layers, all_heads = record.hparams.num_layers, record.hparams.num_heads
    layer = layers - 1 if flags.figure_layer is None else flags.figure_layer
    heads = _numbers(flags.figure_heads) if flags.figure_heads else list(range(all_heads))
    check_figure_file(flags.figure)
    check_layer_and_heads((layers, all_heads), layer, heads)
    return layer, heads


def _check_files(flags: FlagValues, outputs: Mapping[str, Path]) -> None:
    """Raises `UserError` where an output cannot be written: before the work, not after it."""
    from t2t_keras.decoding.job_files import checked_outputs, is_stream

    checked_outputs([flags.sentences_from_file] if flags.sentences_from_file else [], outputs)
    for name, path in outputs.items():
        if is_stream(path):
            raise UserError(f"--{name} is replaced when it is complete: name a file, not '{path}'.")
        check_parent(path)


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",")]
    except ValueError:
        raise UserError(f"--figure_heads takes numbers, as in 0,1; '{text}' came.") from None


def _decode_settings(flags: FlagValues) -> dict[str, str | bool]:
    """Returns the decoding settings; all hypotheses of the beam are shown unless they say so."""
    from t2t_keras.settings import parse_assignments

    return {"return_beams": True, **parse_assignments(flags.decode_hparams)}


def _write_figure(path: str, attention, kind: str, layer: int, heads: Sequence[int]) -> None:
    from t2t_keras.insights.figures import write_figure
    from t2t_keras.insights.views import attention_view

    missing = write_figure(path, attention_view(attention, kind), layer, heads)
    print(f"{path}: {kind}, layer {layer}, heads {', '.join(map(str, heads))}")
    if missing:
        print(f"The figure's font lacks {' '.join(missing)}: they are boxes in it.")


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
