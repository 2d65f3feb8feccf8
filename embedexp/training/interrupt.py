"""Asking a run to stop: a flag is set, and work stops where nothing is lost."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""What asks a run to stop."""


class InterruptedRunError(Exception):
    """The run was asked to stop and did, at a place from which it goes on."""


class StopRequest:
    """Whether a stop was asked for, and by what: a signal, the time limit (minutes), or someone."""

    def __init__(self, time_limit: float | None = None) -> None:
        self.signal: signal.Signals | None = None
        self._asked: str | None = None
        self._limit = time_limit
        self._deadline = None if time_limit is None else time.monotonic() + 60 * time_limit

    @property
    def reason(self) -> str | None:
        """What asks for the stop; None as long as nothing does."""
        if self.signal is not None:
            return self.signal.name
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self.ask(f"its time limit of {self._limit:g} minutes")
        return self._asked

    @property
    def requested(self) -> bool:
        """Whether to stop at the next safe place."""
        return self.reason is not None

    def ask(self, reason: str) -> None:
        """Ask for a stop, from any thread."""
        self._asked = self._asked or reason

    def check(self) -> None:
        """Stop here, if asked to.

        Raises:
            InterruptedRunError: if a stop was requested.
        """
        if self.requested:
            raise InterruptedRunError(self.reason)

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            os._exit(130)  # asked twice at the keyboard: go at once, the last checkpoint holds
        self.signal = signal.Signals(number)
        if number == signal.SIGINT and "LOCAL_RANK" not in os.environ:
            words = "\nstopping at the next safe place (again to stop at once)"
            print(words, file=sys.stderr, flush=True)

    def take_signals(self) -> None:
        """Handle signals from now on, whoever did before; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            signal.signal(number, self._handle)

    @contextmanager
    def listening(self) -> Iterator[StopRequest]:
        """Handle signals for the time of a block; the previous handlers come back after it."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        self.take_signals()
        try:
            yield self
        finally:
            if threading.current_thread() is threading.main_thread():
                for number, handler in before.items():
                    signal.signal(number, handler)
