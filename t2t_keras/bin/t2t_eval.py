"""Score every checkpoint of a run, also while it trains.

t2t-eval --output_dir=runs/base --wait_minutes=60
t2t-eval --output_dir=runs/base --eval_use_test_set --min_steps=50000

Computes loss, perplexity, accuracy, and BLEU (or the problem's own score) on the dev or test set.
Writes TensorBoard's curves and results.jsonl to eval_dev/ or eval_test/ in the run. Checkpoints
that are in results.jsonl are not scored again.
"""

from t2t_keras.bin.flags import (
    command,
    define_common,
    define_polling,
    define_run,
    poll_policy,
    recorded_run,
)
from t2t_keras.io.flags import Flags


def define_flags(flags: Flags) -> None:
    """Adds the flags of the command."""
    flags.group("Run")
    define_common(flags, "output_dir", "data_dir")
    flags.switch("eval_use_test_set", "Score the test set, not the dev set")
    flags.switch("eval_bleu", "Compute BLEU, or F1 of parses, in addition to the loss", True)
    flags.path("results_file", "File of JSON lines to add the scores to, for t2t-tables")
    flags.integer("worker_gpu", "Number of GPUs to use; default: all; 0 = the CPU")
    define_polling(flags, "checkpoints")
    define_common(flags, "decode_hparams")
    define_run(flags)


@command(define_flags)
def run(flags: Flags) -> None:
    """Scores as the flags say."""
    from t2t_keras.data.dataset import open_generated

    config = recorded_run(flags, poll_policy(flags))
    generated = open_generated(config.problem, flags.data_dir or config.data_dir)
    from t2t_keras.evaluation.follow import evaluate_all

    evaluate_all(
        flags.output_dir,
        config,
        generated,
        "test" if flags.eval_use_test_set else "dev",
        policy=poll_policy(flags),
        min_steps=flags.min_steps,
        eval_bleu=flags.eval_bleu,
        decode_hparams=flags.decode_hparams,
        results_file=flags.results_file,
        worker_gpu=flags.worker_gpu,
    )


if __name__ == "__main__":
    run()
