"""What a toolkit recorded for a model, against the same model as a run here."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def import_run():
    """import_run(run, toolkit, model, vocabulary): the run that t2t-import writes."""
    from t2t_keras.interop.bin.t2t_import import run as t2t_import

    def imported(run, toolkit, model, vocabulary):
        languages = "--problem_config=source_language=en,target_language=de"
        flags = [f"--model={model}", f"--vocabulary={vocabulary}", f"--output_dir={run}"]
        t2t_import(
            ["t2t-import", f"--from={toolkit}", *flags, "--problem=parallel_text", languages]
        )
        return run

    return imported


@pytest.fixture(scope="session")
def check_answers():
    """check_answers(run, folder, order_of, decoding): ids, logits and texts are those recorded.

    `order_of` returns as many ids of theirs in our order; `decoding` limits the length as they did.
    """
    from t2t_keras.decoding.translator import Translator

    def check(run, folder, order_of, decoding):
        translator = Translator.from_run(run, decode_hparams=f"beam_size=1,{decoding}")
        order = order_of(translator.tokenizer.vocab_size)
        theirs, ours = np.load(folder / "answers.npz"), np.argsort(order)
        lines = (folder.parents[1] / "lines.en").read_text(encoding="utf-8").splitlines()
        model, texts = translator.models[0], []
        for number, source in enumerate(translator.tokenizer.source.encode(lines)):
            read = source if model.config.source_end else source[:-1]
            np.testing.assert_array_equal(read, ours[theirs[f"source_{number}"]])
            greedy = ours[theirs[f"greedy_{number}"]]
            actual = translator.search(source[None]).ids.numpy()[0, 0]
            np.testing.assert_array_equal(actual, greedy)
            pieces = translator.tokenizer.pieces(greedy[:-1])
            texts.append("".join(pieces).replace("\u2581", " ").strip())
            if f"logits_{number}" in theirs:
                expected = theirs[f"logits_{number}"][:, order]
                logits = model({"source": source[None], "target": greedy[None]}).numpy()[0]
                assert np.abs(expected).max() > 1
                np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
        assert [translation.text for translation in translator.translate(lines)] == texts

    return check
