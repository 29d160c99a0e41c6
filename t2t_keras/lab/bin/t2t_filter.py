"""Keep the sentence pairs that models find likely, from a noisy corpus or a teacher's translations.

t2t-filter --source=web.en --target=web.de --forward=runs/en-de --backward=runs/de-en --keep=0.7
    --output=clean/web
t2t-filter --source=train.en --target=teacher.de --backward=runs/de-en --keep=0.95
    --output=distilled

Writes clean/web.en, clean/web.de and, for each pair, the models' log-probabilities per token to
clean/web.scores. Two models rank pairs by dual conditional cross-entropy (Junczys-Dowmunt, 2018),
one model by its log-probability.
"""

from t2t_keras.bin.flags import command, define_common, define_engine, require
from t2t_keras.io.flags import Flags


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Text")
    flags.path("source", "Source text, one sentence a line")
    flags.path("target", "Translations of --source, line by line")
    flags.number("keep", "Share of the pairs to keep, the best first, as 0.7", 0)
    flags.path("output", "Path of the written files without their endings, such as clean/web")
    flags.group("Models")
    flags.path("forward", "Run that translates in the direction from --source to --target")
    flags.path("backward", "Run that translates in the opposite direction")
    define_engine(flags)
    define_common(flags, "decode_hparams")


@command(define_flags)
def run(flags: Flags) -> None:
    """Filters as the flags say."""
    require(flags, "source", "target", "keep", "output")
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.lab.filtering import filter_pairs

    models = {
        name: Translator.from_run(path, None, flags.decode_hparams, engine=flags.engine)
        for name in ("forward", "backward")
        if (path := getattr(flags, name))
    }
    print(filter_pairs(flags.source, flags.target, flags.output, **models, keep=flags.keep))


if __name__ == "__main__":
    run()
