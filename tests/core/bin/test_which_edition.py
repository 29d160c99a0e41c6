"""Whatever scores newstest2014 says which edition it is of, full or filtered."""

import pytest
import small_wmt

from t2t_keras.bin import t2t_bleu, t2t_decoder, t2t_eval, t2t_translate_all
from t2t_keras.data.generate import generate
from t2t_keras.data.problem import make_problem
from t2t_keras.evaluation.results import read_results

# The archives of the tests are shorter than the true ones.
NAME = "newstest2014, filtered edition (9 lines; as published it has 2,737)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, save_random_run):
    """run/ of translate_ende on the full edition in data/; filtered/ has the other one."""
    folder = tmp_path_factory.mktemp("wmt")
    small_wmt.write_archives(folder)
    config = "vocab_size=340,text_source=archives"
    full, filtered = (
        make_problem("translate_ende", config + more) for more in ("", ",newstest2014=filtered")
    )
    generate(full, folder / "data", folder)
    generate(filtered, folder / "filtered", folder)
    save_random_run(full, folder, steps=(10,))
    return folder


@pytest.mark.usefixtures("eagerly")
def test_the_edition_that_is_asked_for_is_named(folder, tmp_path, refused):
    flags = [f"--output_dir={folder / 'run'}", "--eval_use_test_set"]
    flags += ["--problem_config=newstest2014=filtered", "--decode_hparams=beam_size=1,max_length=3"]
    # The run's own data has the full one.
    refused("other_settings newstest2014 full filtered", "t2t-eval", *flags, "--worker_gpu=0")
    flags.append(f"--data_dir={folder / 'filtered'}")
    results = f"--results_file={tmp_path / 'results'}"
    t2t_decoder.run(["t2t-decoder", *flags, results, f"--decode_to_file={tmp_path / 'out'}"])
    t2t_eval.run(["t2t-eval", *flags, results, "--worker_gpu=0", "--noeval_bleu"])
    translations = f"--translations_dir={tmp_path / 'all'}"
    t2t_translate_all.run(["t2t-translate-all", *flags, translations])
    reference = folder / "filtered" / "translate_ende" / "test.target.txt"
    t2t_bleu.run(["t2t-bleu", translations, f"--reference={reference}"])
    decoded, evaluated = read_results(tmp_path / "results")
    [scored] = read_results(tmp_path / "all" / "results.jsonl")
    assert (decoded.split, evaluated.split) == ("test", "test")
    assert [result.text for result in (decoded, evaluated, scored)] == [NAME] * 3
    assert set(decoded.conventions) == {"tokenised", "compound_split"}
