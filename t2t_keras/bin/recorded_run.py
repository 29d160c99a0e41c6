"""The run that a command reads: its record says what the flags need not repeat."""

import dataclasses

from t2t_keras.bin.flags import FlagValues, required
from t2t_keras.errors import UserError
from t2t_keras.training.following import NO_WAIT, Patience, first_found
from t2t_keras.training.run_record import RunRecord
from t2t_keras.training.run_request import requested_run

_ABOUT_THE_RUN = ("problem", "problem_config", "model", "hparams_set", "hparams")


def recorded_run(flags: FlagValues, patience: Patience = NO_WAIT) -> RunRecord:
    """Returns the record of the run in --output_dir, with the test set that the flags say.

    Args:
      flags: the command's.
      patience: how long to wait for a run that is about to begin.

    Raises:
      UserError: there is none, or a flag that was given contradicts it (each difference is named).
    """
    required(flags, "output_dir")
    first_found(lambda: RunRecord.exists(flags.output_dir), patience, "run")
    record = RunRecord.load(flags.output_dir)
    given = {name: getattr(flags, name) for name in _ABOUT_THE_RUN if flags[name].present}
    request = requested_run(flags.output_dir, given)
    asked = dataclasses.replace(
        record,
        problem=request.problem,
        model=request.model,
        hparams_set=request.hparams_set,
        hparams=request.hparams,
    )
    differences = record.differences(asked)
    if differences:
        raise UserError(
            f"The run in {flags.output_dir} was trained otherwise: {'; '.join(differences)}. "
            f"Leave these flags out, or give the --output_dir of another run."
        )
    return dataclasses.replace(record, problem=request.problem)
