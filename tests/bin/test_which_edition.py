"""Whatever scores newstest2014 says which edition it is of, full or filtered."""

from pathlib import Path

import pytest

from t2t_keras import registry
from t2t_keras.bin import t2t_bleu, t2t_decoder, t2t_eval, t2t_translate_all
from t2t_keras.data.generate import generate
from t2t_keras.evaluation.results import read_results

FAST = "--decode_hparams=beam_size=1,max_length=3"
# The archives of the tests are shorter than the true ones.
NAME = "newstest2014, filtered edition (9 lines; as published it has 2,737)"


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory, load_module, save_random_run):
    """A run of translate_ende beside the full edition; <run_dir>/../filtered has the other one."""
    folder = tmp_path_factory.mktemp("wmt")
    small = load_module(Path(__file__).parents[1] / "problems" / "small_wmt.py")
    small.write_archives(folder)
    config = "vocab_size=340,text_source=archives"
    full, filtered = (
        registry.problem("translate_ende", config + more) for more in ("", ",newstest2014=filtered")
    )
    generate(full, folder / "data", folder)
    generate(filtered, folder / "filtered", folder)
    return save_random_run(full, folder, steps=(10,))


@pytest.fixture
def flags(run_dir):
    """Those that ask for the other edition."""
    other = ["--problem_config=newstest2014=filtered", f"--data_dir={run_dir.parent / 'filtered'}"]
    return [f"--output_dir={run_dir}", "--eval_use_test_set", FAST, *other]


def test_scores_of_a_decoding_and_of_a_checkpoint(flags, run_dir, tmp_path, refused):
    # The run's own data has the full one.
    assert "newstest2014" in refused("t2t-eval", *flags[:-1], "--worker_gpu=0")
    results = [tmp_path / "results.jsonl", run_dir / "eval_test" / "results.jsonl"]
    where = [f"--decode_to_file={tmp_path / 'out'}", f"--results_file={results[0]}"]
    t2t_decoder.run(["t2t-decoder", *flags, *where])
    t2t_eval.run(["t2t-eval", *flags, "--worker_gpu=0", "--noeval_bleu"])
    [decoded], [evaluated] = map(read_results, results)
    assert (decoded.split, decoded.text) == (evaluated.split, evaluated.text) == ("test", NAME)
    assert set(decoded.conventions) == {"tokenised", "compound_split"}


def test_translations_and_their_scores(flags, run_dir, tmp_path):
    where = f"--translations_dir={tmp_path}"
    t2t_translate_all.run(["t2t-translate-all", *flags, where])
    reference = run_dir.parent / "filtered" / "translate_ende" / "test.target.txt"
    t2t_bleu.run(["t2t-bleu", where, f"--reference={reference}"])
    [result] = read_results(tmp_path / "results.jsonl")
    assert result.text == NAME
