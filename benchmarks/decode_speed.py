"""Decoding speed on a kit of batches, as one JSON line that the kit compares with other toolkits.

    python benchmarks/decode_speed.py --kit=../shared/bench/peers --config=base --mode=decode32
        [--xla] [--compute_dtype=bfloat16] [--batches_at_once=2]

Weights are random; beam 4, alpha 0.6, and the end of sentence is forced to be the last of 50
symbols. The search is the translator's own.
"""

import kit
from absl import app, flags

_MODE = flags.DEFINE_enum("mode", "decode32", ["decode32", "decode1"], "Sentences at once.")
_BATCHES_AT_ONCE = flags.DEFINE_integer(
    "batches_at_once", 1, "As the decoder has it, which makes so many batches of the sentences.", 1
)


def main(_) -> None:
    """Times the translator's search on the kit's batches."""
    work = kit.workload()
    import keras
    import numpy as np

    from t2t_keras.data.tokenizer import EOS_ID
    from t2t_keras.decoding.config import DecodeConfig
    from t2t_keras.decoding.side_by_side import share_cores, side_by_side
    from t2t_keras.decoding.translator import Translator
    from t2t_keras.models.transformer import Transformer

    keras.utils.set_random_seed(1)
    config = DecodeConfig(
        beam_size=work.BEAM,
        alpha=work.ALPHA,
        min_length=work.STEPS,
        max_length=work.STEPS,
        xla=kit.XLA.value,
        batches_at_once=_BATCHES_AT_ONCE.value,
    )
    share_cores(config)
    vocab_size = work.config(kit.CONFIG.value)["vocab"]
    model = Transformer.from_hparams(kit.hparams(work), vocab_size, kit.DTYPE.value)
    translator = Translator(model, None, config)

    def translate(source):
        # The kit's end of sentence is another id than ours.
        source = np.where(source == work.EOS, EOS_ID, source)
        found = side_by_side(search, np.array_split(source, config.batches_at_once), config)
        return [ids for _, batch in found for ids in batch]

    def search(source):
        return translator.search(source).ids.numpy()[:, 0].tolist()

    work.decode(
        kit.name() + f"_{config.batches_at_once}_at_once" * (config.batches_at_once > 1),
        kit.CONFIG.value,
        int(_MODE.value.removeprefix("decode")),
        translate,
        warm_all=kit.XLA.value,
        version=kit.version(),
    )


if __name__ == "__main__":
    app.run(main)
