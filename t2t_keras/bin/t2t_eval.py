"""Scores every checkpoint of a run, also of one that is still being trained.

t2t-eval --output_dir=runs/base --wait_minutes=60
t2t-eval --output_dir=runs/base --eval_use_test_set --min_steps=50000

Loss, perplexity and accuracy, and BLEU or what else the problem is scored by, on its dev or test
set. The curves are in eval_dev/ or eval_test/ of the run, where TensorBoard shows them beside those
of the training, and each score is a line of results.jsonl there. What stands in it is not scored
again; --results_file gets it too. With KERAS_BACKEND=jax --noeval_bleu is needed.
"""

import functools
from collections.abc import Sequence

from absl import flags as absl_flags

from t2t_keras.bin.decoding_flags import define_decode_hparams
from t2t_keras.bin.flags import FlagValues, run_command
from t2t_keras.bin.following_flags import define_following, patience


def define_flags(flags: FlagValues) -> None:
    """Adds this command's own flags, named as in tensor2tensor where it has them."""
    absl_flags.DEFINE_boolean(
        "eval_use_test_set", False, "Takes the test set, not the dev set.", flag_values=flags
    )
    absl_flags.DEFINE_boolean(
        "eval_bleu", True, "Computes BLEU, or F1 of parses, beside the loss.", flag_values=flags
    )
    absl_flags.DEFINE_string(
        "results_file",
        "",
        "File of JSON lines that gets the scores too, as that of several runs for t2t-tables.",
        flag_values=flags,
    )
    absl_flags.DEFINE_integer(
        "worker_gpu",
        None,
        "GPUs to use; default: all that are visible; 0 = the CPU, as beside a training.",
        0,
        flag_values=flags,
    )
    define_following(flags, "checkpoints")
    define_decode_hparams(flags)


def main(flags: FlagValues) -> None:
    """Scores as the flags say."""
    from t2t_keras.bin.recorded_run import recorded_run
    from t2t_keras.data.generated import open_generated
    from t2t_keras.evaluation.evaluate_all import evaluate_all
    from t2t_keras.training import backend

    record = recorded_run(flags, patience(flags))
    evaluate_all(
        flags.output_dir,
        record,
        open_generated(record.problem, flags.data_dir or record.data_dir),
        "test" if flags.eval_use_test_set else "dev",
        patience=patience(flags),
        min_steps=flags.min_steps,
        eval_bleu=flags.eval_bleu,
        decode_hparams=flags.decode_hparams,
        results_file=flags.results_file,
        make_step=functools.partial(backend.make_step, worker_gpu=flags.worker_gpu),
    )


def run(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    run_command(define_flags, main, argv)


if __name__ == "__main__":
    run()
