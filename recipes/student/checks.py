"""What of a recipe's configuration would else be seen to be wrong only when much is done."""

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from t2t_keras import registry
from t2t_keras.bin.flags import given_flags
from t2t_keras.data.chunks import FileChunk
from t2t_keras.data.filters import check_direction, check_filters, check_language
from t2t_keras.data.mixing import stages_of
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.interop.engines.ctranslate2 import check_settings, positions_needed
from t2t_keras.interop.exporters.ctranslate2 import check_model_config
from t2t_keras.io.flags import Flags
from t2t_keras.recipes.student.plan import PROBLEM, Plan
from t2t_keras.text.files import decoded, read_lines
from t2t_keras.training.evaluation import deciding
from t2t_keras.training.memory import count_weights
from t2t_keras.training.run_config import TrainOptions, train_options
from t2t_keras.training.trained_parts import choose_trained
from t2t_keras.training.warm_start import other_meanings

# What the recipe decides for each model, and how its checkpoints are kept for the average.
_OWN_FLAGS = (
    *("output_dir", "problem", "problem_config", "data_dir", "model", "hparams_set", "hparams"),
    *("random_seed", "train_steps", "warm_start_from", "adapt_vocabulary", "drop_layers"),
    *("save_checkpoints_secs", "keep_checkpoint_max", "t2t_usr_dir", "config"),
)
# With these the trainer does something else, and succeeds.
_INSTEAD = ("dry_run", "help", "helpfull", "registry_help", "version")


def check(plan: Plan) -> None:
    """Checks the filters, the models, the flags of trainings, the mixture and the texts.

    Raises:
      UserError: a setting of data, models or decoding, a flag, or a mixture, is wrong; a text is
        blank, not UTF-8 or in the wrong language, or two do not pair or are swapped.
    """
    if directory := plan.config["t2t_usr_dir"]:
        registry.import_user_directory(str(plan.folder / directory))
    for name in plan.data:
        problem = make_problem(PROBLEM, plan.problem_config(name))
        check_filters(problem.filters, problem.languages())
    _check_models(plan)
    _check_trainer_flags(plan)
    _check_pairs(plan)
    if plan.config["mix"]:
        texts = plan.data[plan.models[plan.teachers[0]].data].train
        stages_of([plan.config["mix"]], [], dict.fromkeys(texts, 1))


def _check_models(plan: Plan) -> None:
    for name, model in plan.models.items():
        hparams = plan.hparams(name)
        check_model_config(hparams)
        if hparams.lora_rank and not model.begins_with:
            raise UserError(
                f"{name}: lora_rank={hparams.lora_rank} trains what is added to the weights of "
                f"another model: leave it out, or give the student from_teacher: true.",
                code="conflicting_settings",
            )
        if hparams.trainable:
            _check_trainable(hparams)
    if plan.models["student"].begins_with:
        _check_first_weights(plan)
    for part in ("back_translation", "distillation"):
        config = plan.decoding(part)
        where = f"{part}: decode_hparams"
        if config.return_beams or config.write_beam_scores:
            raise UserError(
                f"{where}: expected one translation a line, and nothing else.", code="bad_value"
            )
        if part == "distillation" and len(plan.teachers) > 1:
            continue
        check_settings(config)
        most, needed = positions_needed(DecodeConfig()), positions_needed(config)
        if needed > most:
            raise UserError(
                f"{where}: the exports are for {most:,} tokens, and these settings need "
                f"{needed:,}. Lower max_input_length, extra_length or max_length.",
                code="bad_value",
            )


def _check_trainable(hparams: HParams) -> None:
    """Raises `UserError` where a pattern matches no weight; of any width, they have these names."""
    small = dataclasses.replace(
        hparams, d_model=2, num_heads=1, d_k=0, d_v=0, d_ff=1, max_positions=1, start_id=0
    )
    choose_trained(registry.model("transformer").from_hparams(small, vocab_size=4), small)


def _check_first_weights(plan: Plan) -> None:
    student, teacher = plan.hparams("student"), plan.hparams(plan.teachers[0])
    less = all(
        ours <= theirs for ours, theirs in zip(student.depths(), teacher.depths(), strict=True)
    )
    encoders, decoders = teacher.depths()
    deep = dataclasses.replace(student, num_encoder_layers=encoders, num_decoder_layers=decoders)
    vocab_size = plan.config["vocab_size"]
    if not less or count_weights(deep, vocab_size) != count_weights(teacher, vocab_size):
        raise UserError(
            "student: from_teacher: expected the teachers' hyperparameters with as many or "
            "fewer layers. Change the student's, or leave from_teacher out.",
            code="other_settings",
        )
    if differ := other_meanings(student, teacher):
        given, needed = differ
        raise UserError(
            f"student: from_teacher: the teachers' weights have another meaning with {given}. "
            f"Give the student {needed}, or leave from_teacher out.",
            code="other_settings",
        )


def _check_trainer_flags(plan: Plan) -> None:
    if not plan.config["trainer_flags"]:
        return
    flags = plan.trainer_flags
    try:
        _check_options(plan, flags)
    except UserError as error:
        raise UserError(f"trainer_flags: {error}", code=error.code) from error
    # It reads all its flags before it says which version it is.
    command = [sys.executable, "-m", "t2t_keras.bin.t2t_trainer", *flags, "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().removeprefix("t2t-trainer: ")
        raise UserError(f"trainer_flags: {said}", code="bad_flags")


def _check_options(plan: Plan, given: Sequence[str]) -> None:
    """Checks that no flag is the recipe's own, that they fit together, and that they train."""
    flags, names = Flags(), vars(TrainOptions())
    flags.fields(TrainOptions, *names)
    for name in (each for each in _OWN_FLAGS if each not in flags):
        flags.string(name, "")
    for name in _INSTEAD:
        flags.switch(name, "")
    # Others are for the trainer to check.
    flags.parse(["t2t-trainer", *given], known_only=True)
    for name in _OWN_FLAGS:
        if flags[name].present:
            raise UserError(
                f"expected what the recipe does not decide, got --{name}. Leave it out, and change "
                f"the other settings instead.",
                code="bad_flags",
            )
    instead = [name for name in _INSTEAD if getattr(flags, name)]
    if flags.schedule == "evaluate" or instead:
        raise UserError(
            f"expected a training, got --{instead[0] if instead else 'schedule=evaluate'}. Leave "
            f"it out.",
            code="bad_flags",
        )
    options = train_options(given_flags(flags, *names))
    problem = make_problem(PROBLEM, plan.problem_config("forward"))
    deciding(problem.score(["a"], ["a"], ["a"]), options.best_by)


def _check_pairs(plan: Plan) -> None:
    files = {text: plan.folder / path for text, path in plan.given.items()}
    lines = {text: _count_lines(file) for text, file in files.items()}
    for name in plan.back_translated:
        text = plan.text(name, plan.target)
        check_language(files[text], lines[text], plan.target, plan.source)
    for name in (*plan.config["corpora"], *plan.noisy, *plan.dev):
        source, target = plan.pair(name)
        count, paths = lines[source], (files[source], files[target])
        if count != lines[target]:
            raise UserError(
                f"Line N of one file must be the translation of line N of the other, but "
                f"{paths[0]} has {count:,} lines and {paths[1]} has {lines[target]:,}.",
                code="unequal_counts",
            )
        chunk = FileChunk(paths=paths, offsets=(0, 0), first_line=1, count=count, corpus=name)
        check_direction([chunk], (plan.source, plan.target))


def _count_lines(file: Path) -> int:
    """Returns the number of lines; raises `UserError` where one is not UTF-8, or all are blank."""
    count, has_text = 0, False
    for count, line in enumerate(read_lines(file), 1):
        has_text |= bool(decoded(line, file, count).strip())
    if not has_text:
        raise UserError(
            f"{file} has only blank lines: leave it out, or give one with text.", code="no_text"
        )
    return count
