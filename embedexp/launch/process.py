"""One cell in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.runs import FailureKind, RunDirectory, State
from embedexp.runs.failure import exit_failure
from embedexp.runs.text import plain, redact
from embedexp.runs.view import INTERRUPTED

if TYPE_CHECKING:
    from collections.abc import Mapping

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
_LAST_WORDS = 3


def thread_variables(processes: int) -> dict[str, str]:
    """Environment that divides the cores among `processes`; what the user has set stays."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    threads = str(max(1, cores // max(1, processes)))
    # MKL's own number would overrule it, and give other bits than the same run started alone.
    threads = os.environ.get("OMP_NUM_THREADS", threads)
    return {name: os.environ.get(name, threads) for name in _THREAD_VARIABLES}


class CellProcess:
    """A process that resumes one frozen run; what it prints goes to the run's log."""

    def __init__(self, run: RunDirectory, variables: Mapping[str, str]) -> None:
        self.run = run
        self.started = time.monotonic()
        with run.log_file.open("ab") as log:
            self._log_start = log.tell()
            # A session of its own: Ctrl-C in the terminal reaches it once, from its launcher.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "embedexp", "resume", str(run.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                start_new_session=True,
            )

    @property
    def elsewhere(self) -> bool:
        """Whether another process had the run when this one was to start it, and so it ended."""
        status = self.run.status
        taken = status.state in (State.RUNNING, State.FINISHED) and status.shown != INTERRUPTED
        return taken and self.poll() is not None and status.pid != self._process.pid

    @property
    def seconds(self) -> float:
        """Seconds since the process was started."""
        return time.monotonic() - self.started

    def poll(self) -> int | None:
        """The exit code, or None while the process runs."""
        return self._process.poll()

    def interrupt(self) -> None:
        """Ask the process to save and stop."""
        if self.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def wait(self, seconds: float) -> bool:
        """Whether the process has ended within `seconds`."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End the process and everything that it started, at once."""
        if self.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def settle(self) -> str:
        """Make the run's status say how its ended process ended; returns what to tell of it.

        A process that was killed, or that failed before it could say so, leaves a status that
        its launcher has to complete.
        """
        code = self.poll()
        status = self.run.status
        if code is None or status.state in (State.FINISHED, State.FAILED, State.CANCELLED):
            return status.message or ""
        if status.state is State.PREEMPTED:
            return status.message or "stopped"
        kind, message = exit_failure(code)
        if kind is FailureKind.ERROR:
            message = self._last_words() or message
        try:
            with self.run.owned():
                self.run.fail(message, kind)
        except UserError as held:
            # Someone else runs it: the status is theirs to write.
            return str(held)
        return message

    def _last_words(self) -> str:
        with self.run.log_file.open("rb") as log:
            log.seek(self._log_start)
            text = plain(redact(log.read().decode(errors="replace")))
        return "\n".join([line for line in text.splitlines() if line.strip()][-_LAST_WORDS:])
