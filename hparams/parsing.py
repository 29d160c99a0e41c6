"""Constituency parsing (section 6.3, Table 4)."""

import dataclasses

from t2t_keras.hparams.transformer import transformer_base, transformer_tiny
from t2t_keras.hyperparameters import HParams
from t2t_keras.registry import register_hparams


@register_hparams
def transformer_parsing_base() -> HParams:
    r"""4 layers, d_model 1024, the rest as base: 91.3 F1 on WSJ section 23, WSJ only (Table 4).

    The paper chose dropouts and learning rate on section 22 without stating them. Dropouts and
    warm-up are tensor2tensor's, the learning rate is section 5.3's; trees need a longer max_length.

        t2t-trainer --problem=parsing_wsj --data_dir=data --output_dir=runs/parsing_base \
            --hparams_set=transformer_parsing_base
    """
    return dataclasses.replace(
        transformer_base(),
        num_layers=4,
        d_model=1024,
        dropout=0.2,
        attention_dropout=0.2,
        warmup_steps=16_000,
        max_length=512,
    )


@register_hparams
def transformer_parsing_big() -> HParams:
    r"""The model of `transformer_parsing_base` with less dropout, for the 17M silver trees.

    Semi-supervised: 92.7 F1 (Table 4). Dropouts are tensor2tensor's, 0.1; warm-up is the paper's.

        t2t-trainer --problem=parsing_wsj_semi --data_dir=data --output_dir=runs/parsing_big \
            --hparams_set=transformer_parsing_big
    """
    return dataclasses.replace(
        transformer_parsing_base(), dropout=0.1, attention_dropout=0.1, warmup_steps=4000
    )


@register_hparams
def transformer_parsing_small() -> HParams:
    r"""`transformer_tiny` with 4 layers, for CRAFT's 18,943 trees on a CPU. Not in the paper.

    t2t-trainer --problem=parsing_craft --data_dir=data --output_dir=runs/craft \
        --hparams_set=transformer_parsing_small
    """
    return dataclasses.replace(
        transformer_tiny(),
        num_layers=4,
        dropout=0.1,
        # With post-norm, the model takes twice as many steps to attend to the sentence.
        pre_norm=True,
        # 0.6 · 128^-0.5 · 1000^-0.5 = 0.0017.
        learning_rate=0.6,
        warmup_steps=1000,
        train_steps=12_000,
        batch_tokens=2048,
        max_length=512,
    )
