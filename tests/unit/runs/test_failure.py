"""Failures are told apart by what happened, however deep the cause lies."""

from __future__ import annotations

import signal

import pytest

from embedexp.runs import FailureKind, failure_kind
from embedexp.runs.failure import exit_failure


class OutOfMemoryError(RuntimeError):
    """Like torch's, which is recognised by name."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), FailureKind.OUT_OF_MEMORY),
        (OutOfMemoryError("CUDA"), FailureKind.OUT_OF_MEMORY),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), FailureKind.OUT_OF_MEMORY),
        (OSError(12, "Cannot allocate memory"), FailureKind.OUT_OF_MEMORY),
        (FloatingPointError("loss"), FailureKind.NAN),
        (RuntimeError("The loss is NaN at step 3"), FailureKind.NAN),
        (ValueError("non-finite gradient"), FailureKind.NAN),
        (TimeoutError(), FailureKind.TIMEOUT),
        (SystemExit(143), FailureKind.KILLED),
        (ValueError("financial banana"), FailureKind.ERROR),
    ],
)
def test_kind_of_exception(error: BaseException, kind: FailureKind) -> None:
    assert failure_kind(error) is kind


def test_cause_decides_where_the_outer_exception_says_nothing() -> None:
    outer = RuntimeError("training stopped")
    outer.__cause__ = MemoryError()
    assert failure_kind(outer) is FailureKind.OUT_OF_MEMORY


@pytest.mark.parametrize("code", [-signal.SIGKILL, 128 + signal.SIGKILL])
def test_killed_process_is_told_by_its_exit_code(code: int) -> None:
    kind, message = exit_failure(code)
    assert kind is FailureKind.KILLED
    assert "SIGKILL" in message


def test_plain_exit_code_is_an_error() -> None:
    assert exit_failure(3) == (FailureKind.ERROR, "the process ended with exit code 3")
