"""tensor2tensor's own later recipe, under a name of its own."""

import dataclasses

from t2t_keras.hparams.transformer import transformer_base
from t2t_keras.hyperparameters import HParams
from t2t_keras.registry import register_hparams


@register_hparams
def transformer_base_v3() -> HParams:
    r"""What tensor2tensor came to call transformer_base: pre-norm, more dropout, another schedule.

    Not the paper's: layer normalisation before each sub-layer and after each stack, dropout 0.1
    also on attention weights and inner units, beta2 0.997, a learning rate twice the paper's with a
    warmup of 8,000 steps. Positions stay interleaved.

        t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/base_v3 \
            --hparams_set=transformer_base_v3
    """
    return dataclasses.replace(
        transformer_base(),
        pre_norm=True,
        attention_dropout=0.1,
        relu_dropout=0.1,
        adam_beta2=0.997,
        learning_rate=2.0,
        warmup_steps=8000,
    )
