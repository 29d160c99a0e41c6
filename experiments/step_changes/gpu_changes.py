"""Changes of the step on JAX, which `benchmarks/gpu.py --changes=NAME,...` measures.

A function gets the hyperparameters and returns those to use. It is called before the step is made,
in a process of its own, and may replace functions of the library there.
"""

import dataclasses


def _fused_attention(hparams):
    from fused_attention import fused_attention
    from keras import ops

    from t2t_keras.layers import attention

    plain = attention.scaled_dot_product_attention

    def attend(query, key, value, mask=None, dropout=None, training=None, past=None):
        shape = (query.shape[0], 1, query.shape[2], key.shape[2])
        fits = past is None and mask is not None and not (shape[2] % 64 or shape[3] % 64)
        if not fits or (training and dropout.rate):
            return plain(query, key, value, mask, dropout, training, past)
        return fused_attention(query, key, value, ops.broadcast_to(mask, shape)[:, 0]), None

    attention.scaled_dot_product_attention = attend
    return hparams


CHANGES = {
    "no dropout": lambda hparams: dataclasses.replace(hparams, dropout=0.0),
    "fused attention": _fused_attention,
    "float32": lambda hparams: dataclasses.replace(hparams, compute_dtype="float32"),
}
