"""The paper's base and big models (Table 3), and tensor2tensor's later base."""

import dataclasses

from t2t_keras.hyperparameters import HParams
from t2t_keras.registry import register_hparams


@register_hparams
def transformer_base() -> HParams:
    r"""The paper's base model (Table 3, row base): 27.3 BLEU EN-DE, 38.1 EN-FR (Table 2).

    100,000 steps, 12 hours on 8 P100; the last 5 checkpoints averaged. Without averaging, on
    newstest2013: perplexity 4.92, 25.8 BLEU (Table 3).

        t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/base \
            --hparams_set=transformer_base
    """
    return HParams()


@register_hparams
def transformer_big() -> HParams:
    r"""The paper's big model (Table 3, row big): 28.4 BLEU EN-DE (Table 2).

    300,000 steps, 3.5 days on 8 P100; the last 20 checkpoints averaged. Without averaging, on
    newstest2013: perplexity 4.33, 26.4 BLEU (Table 3).

        t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/big \
            --hparams_set=transformer_big
    """
    return dataclasses.replace(
        transformer_base(), d_model=1024, d_ff=4096, num_heads=16, dropout=0.3, train_steps=300_000
    )


@register_hparams
def transformer_big_enfr() -> HParams:
    r"""The paper's big model for EN-FR, with P_drop 0.1 (section 6.1): 41.8 BLEU (Table 2).

    t2t-trainer --problem=translate_enfr --data_dir=data --output_dir=runs/big_enfr \
        --hparams_set=transformer_big_enfr
    """
    return dataclasses.replace(transformer_big(), dropout=0.1)


@register_hparams
def transformer_base_v3() -> HParams:
    r"""tensor2tensor's later transformer_base: pre-norm, more dropout, another schedule.

    Not the paper's: layer normalisation before each sub-layer and after each stack, dropout 0.1
    also on attention weights and inner units, beta2 0.997, and twice the paper's learning rate with
    8,000 warm-up steps. Positions stay interleaved.

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
