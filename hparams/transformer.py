"""Named sets: the paper's base and big models (Table 3), and small ones."""

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


@register_hparams
def transformer_cpu() -> HParams:
    r"""4 layers, d_model 128: for 10,000 to 100,000 pairs on a CPU. Not in the paper.

    On 20,000 pairs of Tatoeba EN-DE, with a vocabulary of 8,000, on two cores: 23.2 BLEU on the dev
    set after 2,000 steps (9 minutes), 27.1 after 4,000 (18 minutes), 27.5 with the mean of the last
    5 checkpoints.

    t2t-trainer --problem=parallel_text --data_dir=data --output_dir=runs/mine \
        --hparams_set=transformer_cpu
    """
    return dataclasses.replace(
        transformer_base(),
        num_layers=4,
        d_model=128,
        d_ff=512,
        num_heads=4,
        dropout=0.2,
        # Small batches allow many updates; post-norm models learn late to attend to the source.
        pre_norm=True,
        batch_tokens=1024,
        # 0.6 · 128^-0.5 · 500^-0.5 = 0.0024.
        learning_rate=0.6,
        warmup_steps=500,
        train_steps=20_000,
    )


@register_hparams
def transformer_small() -> HParams:
    r"""2 layers, d_model 256: for 100,000 to a million pairs. Not in the paper.

    On 163,542 pairs of Tatoeba EN-DE, with a vocabulary of 8,000, on two cores: 37.1 BLEU on the
    dev set after 3,000 steps (32 minutes), 40.5 after 5,984 steps (an hour), with the mean of the
    last 5 checkpoints.

    t2t-trainer --problem=parallel_text --data_dir=data --output_dir=runs/small \
        --hparams_set=transformer_small
    """
    return dataclasses.replace(
        transformer_cpu(),
        num_layers=2,
        d_model=256,
        d_ff=1024,
        dropout=0.1,
        batch_tokens=2048,
        # 0.8 · 256^-0.5 · 1000^-0.5 = 0.0016.
        learning_rate=0.8,
        warmup_steps=1000,
        train_steps=50_000,
    )


@register_hparams
def transformer_tiny() -> HParams:
    r"""2 layers, d_model 128: for the toy problems, on a CPU in minutes. Not in the paper.

    On translate_ende_toy, after 3 minutes on two cores: 99.1 BLEU on the test set with the mean of
    the last 5 checkpoints, as in examples/demo.sh.

    t2t-trainer --problem=translate_ende_toy --data_dir=data --output_dir=runs/tiny \
        --hparams_set=transformer_tiny
    """
    return dataclasses.replace(
        transformer_base(),
        num_layers=2,
        d_model=128,
        d_ff=512,
        num_heads=4,
        dropout=0.0,
        batch_tokens=2048,
        warmup_steps=400,
        train_steps=1200,
    )


@register_hparams
def transformer_multi30k() -> HParams:
    r"""4 layers, d_model 128: the "Tiny" of Wu et al. (2021), 41.02 BLEU on Multi30k EN-DE.

    "Good for Misconceived Reasons" (ACL 2021): lower-cased, tokenised test_2016_flickr, joint BPE
    of 10,000, mean of the last 10 checkpoints, beam 5. The paper makes 8,000 updates of about 8,000
    tokens with a peak learning rate of 0.005. Here updates are smaller and the peak is 0.0017: with
    seed 1, 40.59 BLEU after 14,000 steps, 41.28 after 22,000 (44 million target tokens). With a
    peak of 0.003 the model did not learn to attend to the source.

    t2t-trainer --problem=translate_ende_multi30k --data_dir=data --output_dir=runs/multi30k \
        --hparams_set=transformer_multi30k --save_checkpoints_secs=240
    """
    return dataclasses.replace(
        transformer_base(),
        num_layers=4,
        d_model=128,
        d_ff=256,
        num_heads=4,
        dropout=0.3,
        # 0.6 · 128^-0.5 · 1000^-0.5 = 0.0017.
        learning_rate=0.6,
        warmup_steps=1000,
        train_steps=22000,
        batch_tokens=2048,
    )
