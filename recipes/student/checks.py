"""Validates a recipe's configuration before any work starts."""

import dataclasses
from pathlib import Path

from t2t_keras import registry
from t2t_keras.bin import t2t_trainer
from t2t_keras.bin.flags import all_flags, given_flags
from t2t_keras.data.chunks import FileChunk
from t2t_keras.data.filters import check_direction, check_filters, check_language
from t2t_keras.data.mixing import stages_of
from t2t_keras.data.problem import make_problem
from t2t_keras.decoding.config import DecodeConfig
from t2t_keras.errors import UserError
from t2t_keras.hyperparameters import HParams
from t2t_keras.recipes.student.plan import PROBLEM, Plan
from t2t_keras.text.files import check_same_lines, decoded, read_lines
from t2t_keras.training.evaluation import selection_metric
from t2t_keras.training.run_config import TrainOptions, train_options
from t2t_keras.training.trained_parts import choose_trained
from t2t_keras.training.warm_start import incompatible_hparams

# Flags that the recipe sets for each model.
_OWN_FLAGS = (
    *("output_dir", "problem", "problem_config", "data_dir", "model", "hparams_set", "hparams"),
    *("random_seed", "train_steps", "warm_start_from", "adapt_vocabulary", "drop_layers"),
    *("save_checkpoints_secs", "keep_checkpoint_max", "t2t_usr_dir", "config"),
)
# With these flags the trainer succeeds without training.
_FLAGS_WITHOUT_TRAINING = ("dry_run", "help", "helpfull", "registry_help", "version")


def check(plan: Plan) -> None:
    """Checks filters, models, decoding settings, trainer_flags, texts and the mixture.

    Raises:
      UserError: a setting of data, models or decoding, a flag or a mixture is wrong; a text is
        blank, not UTF-8 or in the wrong language; or two texts are swapped or not line-aligned.
    """
    if directory := plan.config["t2t_usr_dir"]:
        registry.import_user_directory(str(plan.folder / directory))
    for name in plan.data:
        problem = make_problem(PROBLEM, plan.problem_config(name))
        check_filters(problem.filters, problem.languages())
    _check_models(plan)
    _check_decoding(plan)
    _check_trainer_flags(plan)
    _check_pairs(plan)
    if plan.config["mix"]:
        texts = plan.data[plan.models[plan.teachers[0]].data].train
        stages_of([plan.config["mix"]], [], dict.fromkeys(texts, 1))


def _check_models(plan: Plan) -> None:
    export_format = registry.EXPORT_FORMATS["ctranslate2"]()
    for name, model in plan.models.items():
        hparams = plan.hparams(name)
        export_format.check_model(hparams)
        if hparams.lora_rank and not model.warm_start_from:
            raise UserError(
                f"{name}: lora_rank={hparams.lora_rank} adapts the weights of another model: leave "
                f"it out, or give the student from_teacher: true.",
                code="conflicting_settings",
            )
        if hparams.trainable:
            _check_trainable(hparams)
    if plan.models["student"].warm_start_from:
        _check_warm_start(plan.hparams("student"), plan.hparams(plan.teachers[0]))


def _check_trainable(hparams: HParams) -> None:
    """Raises `UserError` if a pattern matches no weight; widths do not change weights' names."""
    narrow = dataclasses.replace(
        hparams, d_model=2, num_heads=1, d_k=0, d_v=0, d_ff=1, max_positions=1, start_id=0
    )
    choose_trained(registry.MODELS["transformer"].from_hparams(narrow, vocab_size=4), narrow)


def _check_warm_start(student: HParams, teacher: HParams) -> None:
    """Raises `UserError` unless the student has the teacher's shape, maybe with fewer layers."""
    encoders, decoders = teacher.depths()
    deeper = dataclasses.replace(student, num_encoder_layers=encoders, num_decoder_layers=decoders)
    student_encoders, student_decoders = student.depths()
    if (
        student_encoders > encoders
        or student_decoders > decoders
        or deeper.count_weights(4) != teacher.count_weights(4)
    ):
        raise UserError(
            "student: from_teacher: expected the teachers' hyperparameters, maybe with fewer "
            "layers. Change the student's, or leave from_teacher out.",
            code="other_settings",
        )
    if difference := incompatible_hparams(student, teacher):
        student_setting, teacher_setting = difference
        raise UserError(
            f"student: from_teacher: the teachers' weights do not suit {student_setting}. Give the "
            f"student {teacher_setting}, or leave from_teacher out.",
            code="other_settings",
        )


def _check_decoding(plan: Plan) -> None:
    max_tokens = DecodeConfig().max_positions
    for part in ("back_translation", "distillation"):
        config = plan.decoding(part)
        if config.return_beams or config.write_beam_scores:
            raise UserError(
                f"{part}: decode_hparams: expected one translation per line. Leave out "
                f"return_beams and write_beam_scores.",
                code="bad_value",
            )
        if part == "distillation" and len(plan.teachers) > 1:
            continue  # An ensemble translates with Keras.
        registry.EXPORT_FORMATS["ctranslate2"]().check_decoding(config)
        if config.max_positions > max_tokens:
            raise UserError(
                f"{part}: decode_hparams: exports translate up to {max_tokens:,} tokens, but these "
                f"settings allow {config.max_positions:,}. Lower max_input_length, extra_length or "
                f"max_length.",
                code="bad_value",
            )


def _check_trainer_flags(plan: Plan) -> None:
    """Checks that the flags fit together, train a model and are not set by the recipe."""
    flags, options = all_flags(t2t_trainer.define_flags), vars(TrainOptions())
    try:
        for name in plan.config["trainer_flags"]:
            if name.replace("-", "_") in _OWN_FLAGS:
                raise UserError(
                    f"the recipe sets --{name.replace('-', '_')} itself. Leave it out, and change "
                    f"the recipe's settings instead.",
                    code="bad_flags",
                )
        flags.parse(["t2t-trainer", *plan.trainer_flags])
        refused = [f"--{name}" for name in _FLAGS_WITHOUT_TRAINING if getattr(flags, name)]
        refused += ["--schedule=evaluate"] * (flags.schedule == "evaluate")
        if refused:
            raise UserError(f"{refused[0]} does not train a model. Leave it out.", code="bad_flags")
        problem = make_problem(PROBLEM, plan.problem_config("forward"))
        best_by = train_options(given_flags(flags, *options)).best_by
        selection_metric(problem.score(["a"], ["a"], ["a"]), best_by)
    except UserError as error:
        code = "bad_flags" if error.code == "unknown_flag" else error.code
        raise UserError(f"trainer_flags: {error}", code=code) from error


def _check_pairs(plan: Plan) -> None:
    files = {text: plan.folder / path for text, path in plan.user_files.items()}
    lines = {text: _count_lines(file) for text, file in files.items()}
    for name in plan.back_translated:
        text = plan.text(name, plan.target)
        check_language(files[text], lines[text], plan.target, plan.source)
    for name in (*plan.config["corpora"], *plan.noisy, *plan.dev):
        source, target = plan.pair(name)
        count, paths = lines[source], (files[source], files[target])
        check_same_lines({paths[0]: count, paths[1]: lines[target]})
        chunk = FileChunk(paths=paths, offsets=(0, 0), first_line=1, count=count, corpus=name)
        check_direction([chunk], (plan.source, plan.target))


def _count_lines(file: Path) -> int:
    """Returns the number of lines; raises `UserError` if a line is not UTF-8 or all are blank."""
    count, has_text = 0, False
    for count, line in enumerate(read_lines(file), 1):
        has_text |= bool(decoded(line, file, count).strip())
    if not has_text:
        raise UserError(
            f"{file} has only blank lines. Give a file with text, or leave it out.", code="no_text"
        )
    return count
