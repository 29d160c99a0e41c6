"""Variations of the base model: the rows (A) to (E) of the paper's Table 3, in its order.

Each states what it changes, and the paper's perplexity per word piece and BLEU on newstest2013
after 100,000 steps, without averaging (the base model: 4.92 and 25.8). `t2t-eval` measures both on
newstest2013, the dev set. `data` in the commands is what t2t-datagen has made.
"""

import dataclasses

from t2t_keras.hparams.transformer import transformer_base
from t2t_keras.hyperparameters import HParams
from t2t_keras.registry import register_hparams


@register_hparams
def transformer_h1() -> HParams:
    r"""One head of width 512: Table 3, row (A), perplexity 5.29, 24.9 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/h1 \
        --hparams_set=transformer_h1
    """
    return dataclasses.replace(transformer_base(), num_heads=1)


@register_hparams
def transformer_h4() -> HParams:
    r"""4 heads of width 128: Table 3, row (A), perplexity 5.00, 25.5 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/h4 \
        --hparams_set=transformer_h4
    """
    return dataclasses.replace(transformer_base(), num_heads=4)


@register_hparams
def transformer_h16() -> HParams:
    r"""16 heads of width 32: Table 3, row (A), perplexity 4.91, 25.8 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/h16 \
        --hparams_set=transformer_h16
    """
    return dataclasses.replace(transformer_base(), num_heads=16)


@register_hparams
def transformer_h32() -> HParams:
    r"""32 heads of width 16: Table 3, row (A), perplexity 5.01, 25.4 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/h32 \
        --hparams_set=transformer_h32
    """
    return dataclasses.replace(transformer_base(), num_heads=32)


@register_hparams
def transformer_k128() -> HParams:
    r"""128 key channels over all heads, d_k 16: Table 3, row (B), perplexity 5.16, 25.1 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/k128 \
        --hparams_set=transformer_k128
    """
    return dataclasses.replace(transformer_base(), d_k=16)


@register_hparams
def transformer_k256() -> HParams:
    r"""256 key channels over all heads, d_k 32: Table 3, row (B), perplexity 5.01, 25.4 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/k256 \
        --hparams_set=transformer_k256
    """
    return dataclasses.replace(transformer_base(), d_k=32)


@register_hparams
def transformer_l2() -> HParams:
    r"""2 layers: Table 3, row (C), perplexity 6.11, 23.7 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/l2 \
        --hparams_set=transformer_l2
    """
    return dataclasses.replace(transformer_base(), num_layers=2)


@register_hparams
def transformer_l4() -> HParams:
    r"""4 layers: Table 3, row (C), perplexity 5.19, 25.3 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/l4 \
        --hparams_set=transformer_l4
    """
    return dataclasses.replace(transformer_base(), num_layers=4)


@register_hparams
def transformer_l8() -> HParams:
    r"""8 layers: Table 3, row (C), perplexity 4.88, 25.5 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/l8 \
        --hparams_set=transformer_l8
    """
    return dataclasses.replace(transformer_base(), num_layers=8)


@register_hparams
def transformer_hs256() -> HParams:
    r"""d_model 256, so d_k and d_v 32: Table 3, row (C), perplexity 5.75, 24.5 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/hs256 \
        --hparams_set=transformer_hs256
    """
    return dataclasses.replace(transformer_base(), d_model=256)


@register_hparams
def transformer_hs1024() -> HParams:
    r"""d_model 1024, so d_k and d_v 128: Table 3, row (C), perplexity 4.66, 26.0 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/hs1024 \
        --hparams_set=transformer_hs1024
    """
    return dataclasses.replace(transformer_base(), d_model=1024)


@register_hparams
def transformer_ff1024() -> HParams:
    r"""d_ff 1024: Table 3, row (C), perplexity 5.12, 25.4 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/ff1024 \
        --hparams_set=transformer_ff1024
    """
    return dataclasses.replace(transformer_base(), d_ff=1024)


@register_hparams
def transformer_ff4096() -> HParams:
    r"""d_ff 4096: Table 3, row (C), perplexity 4.75, 26.2 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/ff4096 \
        --hparams_set=transformer_ff4096
    """
    return dataclasses.replace(transformer_base(), d_ff=4096)


@register_hparams
def transformer_dr0() -> HParams:
    r"""No dropout: Table 3, row (D), perplexity 5.77, 24.6 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/dr0 \
        --hparams_set=transformer_dr0
    """
    return dataclasses.replace(transformer_base(), dropout=0.0)


@register_hparams
def transformer_dr2() -> HParams:
    r"""P_drop 0.2: Table 3, row (D), perplexity 4.95, 25.5 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/dr2 \
        --hparams_set=transformer_dr2
    """
    return dataclasses.replace(transformer_base(), dropout=0.2)


@register_hparams
def transformer_ls0() -> HParams:
    r"""No label smoothing: Table 3, row (D), perplexity 4.67, 25.3 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/ls0 \
        --hparams_set=transformer_ls0
    """
    return dataclasses.replace(transformer_base(), label_smoothing=0.0)


@register_hparams
def transformer_ls2() -> HParams:
    r"""Label smoothing 0.2: Table 3, row (D), perplexity 5.47, 25.7 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/ls2 \
        --hparams_set=transformer_ls2
    """
    return dataclasses.replace(transformer_base(), label_smoothing=0.2)


@register_hparams
def transformer_learned_positions() -> HParams:
    r"""Learned positions in place of sinusoids: Table 3, row (E), perplexity 4.92, 25.7 BLEU.

    t2t-trainer --problem=translate_ende --data_dir=data --output_dir=runs/learned_positions \
        --hparams_set=transformer_learned_positions
    """
    # As many rows as the longest sentence trained on has tokens.
    return dataclasses.replace(transformer_base(), learned_positions=transformer_base().max_length)
