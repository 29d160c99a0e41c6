r"""Show translations, other hypotheses and all attention weights on one HTML page.

t2t-insights --output_dir=runs/averaged --sentence="A man sleeps."
t2t-insights --output_dir=runs/averaged --sentences_from_file=news.en --page=news.html
t2t-insights --output_dir=runs/averaged --sentence="A man sleeps." \
    --figure=attention.svg --figure_kind=encoder --figure_layer=4 --figure_heads=0,1

Layers and heads are counted from 0. Figures need matplotlib: pip install -e '.[plot]'.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

from t2t_keras.bin.flags import command, define_common, define_run, recorded_run, refuse_alone
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.io.files import check_not_stream, check_outputs, check_parent, write_atomically
from t2t_keras.io.flags import Flags
from t2t_keras.text.files import is_blank, is_text, read_text


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Sentences")
    flags.repeatable_text("sentence", "Sentence to translate; may be given several times")
    flags.path("sentences_from_file", "Or a file of sentences, one per line")
    flags.group("Model")
    define_common(flags, "output_dir", "checkpoint_path")
    flags.assignments("decode_hparams", 'Decoding settings, "beam_size=4,samples=5,..."')
    flags.group("Page and figure")
    flags.path("page", "HTML file; default: insights.html in --output_dir")
    flags.path("figure", "Also draw one layer: file ending in .svg, .png or .pdf")
    flags.choice("figure_kind", "Attention to draw", ("encoder", "decoder", "cross"), "cross")
    flags.integer("figure_layer", "Layer, from 0; default: the last")
    flags.string("figure_heads", 'Heads, from 0, as "0,1"; default: all')
    define_run(flags)


@command(define_flags)
def run(flags: Flags) -> None:
    """Translates sentences; writes the page and the figure that the flags name."""
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.lab.insights import attention_page, attention_view, sentence_insights

    config = recorded_run(flags)
    sentences = _sentences(flags)
    layer_and_heads = _layer_and_heads(flags, config.hparams, sentences)
    page = Path(flags.page or Path(flags.output_dir) / "insights.html")
    outputs = {"page": page} | ({"figure": Path(flags.figure)} if flags.figure else {})
    check_outputs(filter(None, [flags.output_dir, flags.sentences_from_file]), outputs.values())
    for name, path in outputs.items():
        check_not_stream(path, f"--{name} is written atomically")
        check_parent(path)
    # All hypotheses of the beam are shown unless the settings say otherwise.
    settings = {"return_beams": True, **flags.decode_hparams}
    translator = Translator.from_run(flags.output_dir, flags.checkpoint_path, settings)
    insights = iter(sentence_insights(translator, sentences))
    first = next(insights)
    content = attention_page(itertools.chain([first], insights)).encode("utf-8")
    write_atomically(page, content)
    plural = "s" if len(sentences) > 1 else ""
    print(f"{page}: {len(sentences):,} sentence{plural}, {len(content) / 1e6:.2f} MB")
    if layer_and_heads:
        from t2t_keras.lab.insights import write_figure

        layer, heads = layer_and_heads
        view = attention_view(first.attention, flags.figure_kind)
        missing = write_figure(flags.figure, view, layer, heads)
        head_list = ", ".join(map(str, heads))
        print(f"{flags.figure}: {flags.figure_kind}, layer {layer}, heads {head_list}")
        if missing:
            print(f"The figure's font lacks {' '.join(missing)}, shown as boxes.")


def _sentences(flags: Flags) -> list[str]:
    """Returns the sentences to translate; prints the number of skipped blank lines."""
    if bool(flags.sentence) == bool(flags.sentences_from_file):
        raise UserError("Give one of --sentence and --sentences_from_file.", code="missing_flags")
    if not all(map(is_text, flags.sentence or ())):
        raise UserError("--sentence is not UTF-8: give it as UTF-8.", code="not_utf8")
    lines = flags.sentence if flags.sentence else read_text(flags.sentences_from_file)
    sentences = [line for line in lines if not is_blank(line)]
    if not sentences:
        raise UserError(
            f"{flags.sentences_from_file or '--sentence'} is blank: expected text.", code="blank"
        )
    if num_blank := len(lines) - len(sentences):
        print(f"Blank lines skipped: {num_blank:,}")
    return sentences


def _layer_and_heads(
    flags: Flags, hparams: HParams, sentences: Sequence[str]
) -> tuple[int, list[int]] | None:
    """Returns the layer and the heads of the figure, checked; None without --figure."""
    if not flags.figure:
        figure_flags = ("figure_kind", "figure_layer", "figure_heads")
        refuse_alone(flags, dict.fromkeys(figure_flags, "figure"))
        return None
    if len(sentences) > 1:
        raise UserError(
            f"--figure shows one sentence; {flags.sentences_from_file or '--sentence'} has "
            f"{len(sentences):,}.",
            code="conflicting_settings",
        )
    from t2t_keras.lab.insights import check_figure

    encoder_depth, decoder_depth = hparams.depths()
    num_layers = encoder_depth if flags.figure_kind == "encoder" else decoder_depth
    layer = num_layers - 1 if flags.figure_layer is None else flags.figure_layer
    try:
        heads = [int(head) for head in flags.figure_heads.split(",") if flags.figure_heads]
    except ValueError:
        raise UserError(
            f"--figure_heads: expected 0,1,..., got {flags.figure_heads!a}.", code="bad_value"
        ) from None
    heads = heads or list(range(hparams.num_heads))
    check_figure(flags.figure, (num_layers, hparams.num_heads), layer, heads)
    return layer, heads


if __name__ == "__main__":
    run()
