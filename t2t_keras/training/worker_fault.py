"""Why the workers of a run end together: the text, and the status that they exit with."""

from t2t_keras.errors import UserError

# sysexits.h calls it EX_TEMPFAIL: the same command may well work when it is started again.
TRY_AGAIN = 75


class WorkerError(UserError):
    """A worker is missing, dead, stopped or unlike the others, or has ended with an error.

    Args:
      text: which worker, and why.
      exit_status: `TRY_AGAIN`, or 2 where starting again would not help.
    """

    def __init__(self, text: str, exit_status: int = TRY_AGAIN):
        super().__init__(text)
        self.exit_status = exit_status
