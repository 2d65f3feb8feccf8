"""Why a run failed, in one of five kinds."""

from __future__ import annotations

import errno
import re
import signal
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class FailureKind(StrEnum):
    """What ended a run that did not finish."""

    OUT_OF_MEMORY = "out of memory"
    NAN = "NaN"
    TIMEOUT = "timeout"
    KILLED = "killed"
    ERROR = "error"


_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|cannot allocate memory", re.I)
_NAN = re.compile(r"\bnans?\b|\bnon-?finite\b|\bnot finite\b", re.I)


def failure_kind(error: BaseException) -> FailureKind:
    """The kind of failure that `error`, or what caused it, stands for."""
    for cause in _causes(error):
        kind = _own_kind(cause)
        if kind is not FailureKind.ERROR:
            return kind
    return FailureKind.ERROR


def exit_failure(returncode: int) -> tuple[FailureKind, str]:
    """Kind and description of a process that ended with `returncode` and left no word itself."""
    # A shell or a container reports a signal as 128 + its number, subprocess as its negative.
    number = -returncode if returncode < 0 else returncode - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return FailureKind.ERROR, f"the process ended with exit code {returncode}"
    hint = ", perhaps by the system for lack of memory" if name == "SIGKILL" else ""
    return FailureKind.KILLED, f"the process was killed by {name}{hint}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _own_kind(error: BaseException) -> FailureKind:
    # By name, so that torch and jax need not be imported to recognise their exceptions.
    names = {cls.__name__ for cls in type(error).__mro__}
    out_of_memory = isinstance(error, OSError) and error.errno == errno.ENOMEM
    message = str(error)
    if "OutOfMemoryError" in names or isinstance(error, MemoryError) or out_of_memory:
        return FailureKind.OUT_OF_MEMORY
    if isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(message):
        return FailureKind.OUT_OF_MEMORY
    if isinstance(error, FloatingPointError):
        return FailureKind.NAN
    if isinstance(error, RuntimeError | ValueError) and _NAN.search(message):
        return FailureKind.NAN
    if isinstance(error, TimeoutError) or "TimeoutExpired" in names:
        return FailureKind.TIMEOUT
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return FailureKind.KILLED
    return FailureKind.ERROR
