"""What of a recipe's configuration would else be seen to be wrong only when much is done."""

import dataclasses
import shlex
import subprocess
import sys
from pathlib import Path

from t2t_keras import registry
from t2t_keras.data.chunks import FileChunk
from t2t_keras.data.filters import check_direction, check_filters
from t2t_keras.data.mixing import parse_mix
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.decoding.engines.ctranslate2_export import check_settings, positions_needed
from t2t_keras.errors import UserError
from t2t_keras.recipes.student.plan import PROBLEM, Plan
from t2t_keras.serving.export.ctranslate2 import check_config
from t2t_keras.text.files import decoded, read_lines
from t2t_keras.training.memory.estimate import count_weights
from t2t_keras.training.trained_model import other_meanings


def check(plan: Plan) -> None:
    """Checks the filters, the models, the flags of trainings, the mixture and the texts.

    Raises:
      UserError: a setting of data, models or decoding, a flag, or a mixture, is wrong; a text is
        not UTF-8, or two do not pair or are swapped.
    """
    for name in plan.data:
        problem = registry.problem(PROBLEM, plan.problem_config(name))
        check_filters(problem.filter_names(), problem.languages())
    _check_models(plan), _check_trainer_flags(plan), _check_pairs(plan)
    if plan.config["mix"]:
        texts = plan.data[plan.models[plan.teachers[0]].data].train
        parse_mix(plan.config["mix"], dict.fromkeys(texts, 1))


def _check_models(plan: Plan) -> None:
    for name in plan.models:
        check_config(plan.hparams(name))
    if plan.models["student"].begins_with:
        _check_first_weights(plan)
    for part in ("back_translation", "distillation"):
        config = plan.decoding(part)
        where = f"{part}: decode_hparams"
        if config.return_beams or config.write_beam_scores:
            raise UserError(f"{where}: expected one translation a line, and nothing else.")
        if part == "distillation" and len(plan.teachers) > 1:
            continue
        check_settings(config)
        most, needed = positions_needed(DecodeConfig()), positions_needed(config)
        if needed > most:
            raise UserError(
                f"{where}: the exports are for {most:,} tokens, and these settings need "
                f"{needed:,}. Lower max_input_length, extra_length or max_length."
            )


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
            "fewer layers. Change the student's, or leave from_teacher out."
        )
    if differ := other_meanings(student, teacher):
        given, needed = differ
        raise UserError(
            f"student: from_teacher: the teachers' weights have another meaning with {given}. "
            f"Give the student {needed}, or leave from_teacher out."
        )


def _check_trainer_flags(plan: Plan) -> None:
    try:
        flags = shlex.split(plan.config["trainer_flags"])
    except ValueError as error:
        raise UserError(f"trainer_flags: {error}: {plan.config['trainer_flags']}") from error
    if not flags:
        return
    # It reads all its flags before it says which version it is.
    command = [sys.executable, "-m", "t2t_keras.bin.t2t_trainer", *flags, "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().removeprefix("t2t-trainer: ")
        raise UserError(f"trainer_flags: {said}")


def _check_pairs(plan: Plan) -> None:
    files = {text: plan.folder / path for text, path in plan.given.items()}
    lines = {text: _count_lines(file) for text, file in files.items()}
    for name in (*plan.config["corpora"], *plan.noisy, *plan.dev):
        source, target = plan.pair(name)
        count, paths = lines[source], (files[source], files[target])
        if count != lines[target]:
            raise UserError(
                f"Line N of one file must be the translation of line N of the other, but "
                f"{paths[0]} has {count:,} lines and {paths[1]} has {lines[target]:,}."
            )
        chunk = FileChunk(paths=paths, offsets=(0, 0), first_line=1, count=count, corpus=name)
        check_direction([chunk], (plan.source, plan.target))


def _count_lines(file: Path) -> int:
    """Returns the number of lines; raises `UserError` where one is not UTF-8."""
    count = 0
    for count, line in enumerate(read_lines(file), 1):
        decoded(line, file, count)
    return count
