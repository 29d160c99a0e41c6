"""What `import t2t_keras as t2t` offers."""

import t2t_keras as t2t


def test_a_set_can_be_named_again_after_the_package_of_that_name_was_imported():
    for _ in range(2):
        hparams = t2t.hparams("transformer_base", dropout=0.2)
        assert (hparams.dropout, hparams.set_name) == (0.2, "transformer_base")
    from t2t_keras.hparams.transformer import transformer_base

    assert t2t.hparams("transformer_base") == transformer_base()


def test_every_public_name_is_there():
    assert all(getattr(t2t, name) for name in t2t.__all__)
