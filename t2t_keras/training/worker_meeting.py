"""Before the first step: all workers are there, and would compute the same.

Each other worker connects to the chief and says what it would use; the chief compares, and tells
all whether they go on. Whoever is missing, differs or has ended meanwhile is named on every worker.
"""

import contextlib
import socket
import time

from t2t_keras.errors import UserError
from t2t_keras.training.cluster import Cluster
from t2t_keras.training.worker_fault import TRY_AGAIN, WorkerError
from t2t_keras.training.worker_links import Link, connect, listen

# How much longer others wait for the chief's word than the chief for the others.
_MARGIN_SECONDS = 10.0
_LOOK_SECONDS = 0.05
_RETRY_SECONDS = 0.2
# How long a worker that will not come stays to say so, and the chief to pass it on.
_TELL_SECONDS = 10.0
_MEETING = "while others were awaited"


def meet_as_chief(cluster: Cluster, own: dict[str, str], seconds: float) -> dict[int, Link]:
    """Waits for all other workers and compares what they would use with the chief's.

    Args:
      cluster: whose worker 0 this is.
      own: what the chief uses, by name.
      seconds: how long to wait.

    Returns:
      The connection to each other worker.

    Raises:
      WorkerError: some did not come, use something else, or came and have ended. All that came
        have been told.
      UserError: the port is taken.
    """
    meeting = _Meeting(cluster, own)
    with listen(cluster.watch_address) as listener:
        try:
            meeting.wait(listener, time.monotonic() + seconds, seconds)
            meeting.compare()
        except WorkerError as fault:
            meeting.tell({"stop": str(fault), "status": fault.exit_status})
            raise
    meeting.tell({"go": True})
    return meeting.links


def meet_chief(cluster: Cluster, own: dict[str, str], seconds: float) -> Link:
    """Connects to the chief and waits for its word that all are there and alike.

    Args:
      cluster: one of whose workers this is, not the chief.
      own: what this worker uses, by name.
      seconds: how long to try to reach the chief.

    Returns:
      The connection to the chief.

    Raises:
      WorkerError: the chief cannot be reached, has ended, or says that the workers do not go on.
    """
    deadline, why = time.monotonic() + seconds, "no answer"
    while (remaining := deadline - time.monotonic()) > 0:
        try:
            link = connect(cluster.watch_address, remaining)
        except OSError as error:
            # The chief does not listen yet.
            why = str(error)
            time.sleep(min(_RETRY_SECONDS, max(remaining, 0.0)))
            continue
        try:
            link.send({"hello": own, "index": cluster.index, "host": socket.gethostname()})
            return _wait_for_go(cluster, link, seconds)
        except OSError:
            raise crashed(cluster, 0, _MEETING) from None
    host, port = cluster.watch_address
    raise WorkerError(
        f"{capital(cluster.name(0))} did not start: port {port} of {host} was not reached in "
        f"{seconds:g} s (--worker_start_secs): {why}. Look at its log, or start it."
    )


def tell_failure(cluster: Cluster, text: str, exit_status: int) -> None:
    """Tells the workers that wait for this one that it will not come, and why.

    Another worker tells the chief, as soon as it listens, and the chief the rest. Who cannot be
    reached within some seconds finds out by waiting.

    Args:
      cluster: one of whose workers this is.
      text: why.
      exit_status: what they exit with.
    """
    if cluster.is_chief:
        _tell_others(cluster, {"stop": str(ended(cluster, 0, text)), "status": exit_status})
    else:
        _tell_chief(cluster, {"failed": text, "status": exit_status, "index": cluster.index})


def _tell_chief(cluster: Cluster, message: dict) -> None:
    deadline = time.monotonic() + _TELL_SECONDS
    while (remaining := deadline - time.monotonic()) > 0:
        with contextlib.suppress(OSError):
            link = connect(cluster.watch_address, remaining)
            link.send(message)
            link.close()
            return
        # The chief does not listen yet: it may have more to do before.
        time.sleep(_RETRY_SECONDS)


def _tell_others(cluster: Cluster, message: dict) -> None:
    deadline, told = time.monotonic() + _TELL_SECONDS, []
    with contextlib.suppress(OSError, UserError), listen(cluster.watch_address) as listener:
        while time.monotonic() < deadline and len(told) < len(cluster.addresses) - 1:
            with contextlib.suppress(BlockingIOError):
                told.append(Link(listener.accept()[0]))
                told[-1].send(message)
            time.sleep(_LOOK_SECONDS)


def differences(cluster: Cluster, chief: dict[str, str], index: int, other: dict) -> list[str]:
    """Returns a line for each thing that a worker uses other than the chief."""
    return [
        f"{name}: {chief.get(name, 'nothing')} on {cluster.name(0)}, "
        f"{other.get(name, 'nothing')} on {cluster.name(index)}"
        for name in {**chief, **other}
        if chief.get(name) != other.get(name)
    ]


class _Meeting:
    """What the chief knows of the others while it waits for them."""

    def __init__(self, cluster: Cluster, own: dict[str, str]):
        self._cluster, self._own = cluster, own
        self.links: dict[int, Link] = {}
        self._hellos: dict[int, dict] = {}
        self._strangers: list[Link] = []
        self._failed: dict[int, WorkerError] = {}
        self._deadline = 0.0

    def wait(self, listener: socket.socket, deadline: float, seconds: float) -> None:
        self._deadline = deadline
        while missing := self._missing():
            if time.monotonic() > self._deadline:
                break
            with contextlib.suppress(BlockingIOError):
                self._strangers.append(Link(listener.accept()[0]))
            for link in list(self._strangers):
                self._listen_to(link)
            for index, link in list(self.links.items()):
                if index not in self._failed:
                    self._check_still_there(index, link)
            time.sleep(_LOOK_SECONDS)
        for fault in self._failed.values():
            raise fault
        if missing:
            names = [self._cluster.name(each) for each in missing]
            raise WorkerError(
                f"{capital(' and '.join(names))} did not start: not heard of in "
                f"{seconds:g} s (--worker_start_secs). Look at the log there, or start it."
            )

    def _missing(self) -> list[int]:
        workers = range(1, len(self._cluster.addresses))
        return [each for each in workers if each not in {**self.links, **self._failed}]

    def _note_fault(self, index: int, fault: WorkerError) -> None:
        """Ends the waiting soon, not at once: who comes a moment later should be told why."""
        self._failed[index] = fault
        self._deadline = min(self._deadline, time.monotonic() + _TELL_SECONDS)

    def _listen_to(self, link: Link) -> None:
        try:
            messages = link.receive(0)
        except OSError:  # Whoever it was, no worker of this run.
            self._strangers.remove(link)
            return
        if not messages:
            return
        self._strangers.remove(link)
        message = messages[0]
        index = message.get("index")
        if index not in range(1, len(self._cluster.addresses)):
            return
        if "failed" in message:
            self._note_fault(index, failed(self._cluster, index, message))
            return
        if index in self.links:
            fault = WorkerError(
                f"Two processes are {self._cluster.name(index)}: on "
                f"{self._hellos[index].get('host')} and {message.get('host')}. Give each its own "
                f"index.",
                exit_status=2,
            )
            with contextlib.suppress(OSError):
                link.send({"stop": str(fault), "status": fault.exit_status})
            raise fault
        self.links[index], self._hellos[index] = link, message

    def _check_still_there(self, index: int, link: Link) -> None:
        try:
            messages = link.receive(0)
        except OSError:
            # The system may start it again, which then is told as well.
            del self.links[index]
            self._note_fault(index, crashed(self._cluster, index, _MEETING))
            return
        for message in messages:
            if "failed" in message:
                self._note_fault(index, failed(self._cluster, index, message))

    def compare(self) -> None:
        lines = []
        for index in sorted(self._hellos):
            hello = self._hellos[index].get("hello", {})
            lines += differences(self._cluster, self._own, index, hello)
        if lines:
            raise WorkerError(
                "The workers would not compute the same:\n  "
                + "\n  ".join(lines)
                + "\nGive every machine the same command, data and versions.",
                exit_status=2,
            )

    def tell(self, message: dict) -> None:
        for link in self.links.values():
            with contextlib.suppress(OSError):
                link.send(message)


def failed(cluster: Cluster, index: int, message: dict) -> WorkerError:
    """Returns the fault of which a worker's last message tells."""
    return ended(cluster, index, message["failed"], message.get("status", TRY_AGAIN))


def ended(cluster: Cluster, index: int, text: str, exit_status: int = TRY_AGAIN) -> WorkerError:
    """Returns the fault of a worker that has ended with an error."""
    return WorkerError(f"{capital(cluster.name(index))} ended with an error: {text}", exit_status)


def crashed(cluster: Cluster, index: int, where: str) -> WorkerError:
    """Returns the fault of a worker whose connection has closed; `where` says what it did."""
    return WorkerError(
        f"{capital(cluster.name(index))} was killed or crashed {where}: its connection closed "
        f"without a word. Its log or its system's may tell why."
    )


def stopped(message: dict) -> WorkerError:
    """Returns the fault that the chief tells of."""
    return WorkerError(message["stop"], message.get("status", TRY_AGAIN))


def _wait_for_go(cluster: Cluster, link: Link, seconds: float) -> Link:
    deadline = time.monotonic() + seconds + _MARGIN_SECONDS
    while (remaining := deadline - time.monotonic()) > 0:
        messages = link.receive(remaining)
        for number, message in enumerate(messages):
            if "stop" in message:
                raise stopped(message)
            if "go" in message:
                link.put_back(messages[number + 1 :])
                return link
    raise WorkerError(
        f"{capital(cluster.name(0))} was reached, but has not said within "
        f"{seconds + _MARGIN_SECONDS:g} s whether all are there: it is stopped, or its machine or "
        f"the network is down."
    )


def capital(text: str) -> str:
    """Returns the text as a sentence begins."""
    return text[:1].upper() + text[1:]
