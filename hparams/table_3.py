"""Variations of the base model: the rows (A) to (E) of the paper's Table 3, in its order.

Each states what it changes, and the paper's perplexity per word piece and BLEU on newstest2013
after 100,000 steps, without averaging (the base model: 4.92 and 25.8). `t2t-decoder` without a file
scores newstest2013, the dev set.
"""

import dataclasses

from t2t_keras.hparams.transformer import transformer_base
from t2t_keras.hyperparameters import HParams
from t2t_keras.registry import register_hparams


@register_hparams
def transformer_h1() -> HParams:
    """One head of width 512: Table 3, row (A), perplexity 5.29, 24.9 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_h1
    """
    return dataclasses.replace(transformer_base(), num_heads=1)


@register_hparams
def transformer_h4() -> HParams:
    """4 heads of width 128: Table 3, row (A), perplexity 5.00, 25.5 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_h4
    """
    return dataclasses.replace(transformer_base(), num_heads=4)


@register_hparams
def transformer_h16() -> HParams:
    """16 heads of width 32: Table 3, row (A), perplexity 4.91, 25.8 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_h16
    """
    return dataclasses.replace(transformer_base(), num_heads=16)


@register_hparams
def transformer_h32() -> HParams:
    """32 heads of width 16: Table 3, row (A), perplexity 5.01, 25.4 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_h32
    """
    return dataclasses.replace(transformer_base(), num_heads=32)


@register_hparams
def transformer_k128() -> HParams:
    """128 key channels over all heads, d_k 16: Table 3, row (B), perplexity 5.16, 25.1 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_k128
    """
    return dataclasses.replace(transformer_base(), d_k=16)


@register_hparams
def transformer_k256() -> HParams:
    """256 key channels over all heads, d_k 32: Table 3, row (B), perplexity 5.01, 25.4 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_k256
    """
    return dataclasses.replace(transformer_base(), d_k=32)


@register_hparams
def transformer_l2() -> HParams:
    """2 layers: Table 3, row (C), perplexity 6.11, 23.7 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_l2
    """
    return dataclasses.replace(transformer_base(), num_layers=2)


@register_hparams
def transformer_l4() -> HParams:
    """4 layers: Table 3, row (C), perplexity 5.19, 25.3 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_l4
    """
    return dataclasses.replace(transformer_base(), num_layers=4)


@register_hparams
def transformer_l8() -> HParams:
    """8 layers: Table 3, row (C), perplexity 4.88, 25.5 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_l8
    """
    return dataclasses.replace(transformer_base(), num_layers=8)


@register_hparams
def transformer_hs256() -> HParams:
    """d_model 256, so d_k and d_v 32: Table 3, row (C), perplexity 5.75, 24.5 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_hs256
    """
    return dataclasses.replace(transformer_base(), d_model=256)


@register_hparams
def transformer_hs1024() -> HParams:
    """d_model 1024, so d_k and d_v 128: Table 3, row (C), perplexity 4.66, 26.0 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_hs1024
    """
    return dataclasses.replace(transformer_base(), d_model=1024)


@register_hparams
def transformer_ff1024() -> HParams:
    """d_ff 1024: Table 3, row (C), perplexity 5.12, 25.4 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_ff1024
    """
    return dataclasses.replace(transformer_base(), d_ff=1024)


@register_hparams
def transformer_ff4096() -> HParams:
    """d_ff 4096: Table 3, row (C), perplexity 4.75, 26.2 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_ff4096
    """
    return dataclasses.replace(transformer_base(), d_ff=4096)


@register_hparams
def transformer_dr0() -> HParams:
    """No dropout: Table 3, row (D), perplexity 5.77, 24.6 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_dr0
    """
    return dataclasses.replace(transformer_base(), dropout=0.0)


@register_hparams
def transformer_dr2() -> HParams:
    """P_drop 0.2: Table 3, row (D), perplexity 4.95, 25.5 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_dr2
    """
    return dataclasses.replace(transformer_base(), dropout=0.2)


@register_hparams
def transformer_ls0() -> HParams:
    """No label smoothing: Table 3, row (D), perplexity 4.67, 25.3 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_ls0
    """
    return dataclasses.replace(transformer_base(), label_smoothing=0.0)


@register_hparams
def transformer_ls2() -> HParams:
    """Label smoothing 0.2: Table 3, row (D), perplexity 5.47, 25.7 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_ls2
    """
    return dataclasses.replace(transformer_base(), label_smoothing=0.2)


@register_hparams
def transformer_learned_positions() -> HParams:
    """Learned positions in place of sinusoids: Table 3, row (E), perplexity 4.92, 25.7 BLEU.

    t2t-trainer --problem=translate_ende --hparams_set=transformer_learned_positions
    """
    # As many rows as the longest sentence trained on has tokens.
    return dataclasses.replace(transformer_base(), learned_positions=transformer_base().max_length)
