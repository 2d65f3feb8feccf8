"""The processes of one run: who starts them, what becomes of the others when one fails."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from embedexp.config.resources import Resources, resources
from embedexp.runs import RunDirectory, failure_kind
from embedexp.runs.failure import exit_failure
from embedexp.runs.ranks import (
    RankFailure,
    failure_file,
    forget_rank_failures,
    rank_failures,
    says_peer_gone,
    write_rank_failure,
)
from embedexp.runs.text import redact
from embedexp.training.world import VARIABLES, World

from .preflight import require_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embedexp.config import Config

_PARENT = "EMBEDEXP_PARENT"  # set where standard input tells that the starting process is gone
_GRACE = 20.0  # seconds in which a rank notices by itself that another is gone
_TOGETHER = 2.0  # seconds in which the first rank meets the same error, and writes it down itself
_LEFT_WELL = (None, 0, 130)  # exit codes of ranks that work, are done, or stopped with all others
_TOLD = 5.0  # seconds that another rank's failure may need to be seen in the run directory
_LEAVE = 60.0  # seconds in which ranks end after the first one has
log = logging.getLogger(__name__)


class RankFailedError(RuntimeError):
    """Another rank of this run failed, for the reason in `failure`."""

    def __init__(self, failure: RankFailure) -> None:
        super().__init__(f"rank {failure.rank}: {failure.message}")
        self.failure = failure


class Follower(RunDirectory):
    """The run as ranks after the first see it: they read it, and leave writing to the first."""

    def update(self, **_: Any) -> None:
        """Nothing: the first rank says how far the run is."""


@contextmanager
def together(config: Config, run: RunDirectory) -> Iterator[tuple[World, int | None]]:
    """The world of the first rank, with the other ranks started where nobody else does.

    Gives the socket on which the first rank is to listen, too, if it is bound already. When the
    block ends, so do the other ranks.

    Raises:
        UserError: the processes that there are do not fit `compute`.
    """
    require_ranks(config)
    needed, world = resources(config.compute), World.of_environment()
    forget_rank_failures(run.path)
    if world.size > 1 or needed.world == 1:
        yield world, None
        return
    with _started(run, needed) as listening:
        yield World.of_environment(), listening


@contextmanager
def _started(run: RunDirectory, needed: Resources) -> Iterator[int]:
    """Ranks 1 to n-1 as processes of their own; this process becomes rank 0."""
    server = socket.create_server(("127.0.0.1", 0))
    shared = {
        "WORLD_SIZE": str(needed.world),
        "LOCAL_WORLD_SIZE": str(needed.devices),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(server.getsockname()[1]),
    }
    before = {name: os.environ.get(name) for name in (*VARIABLES, "GROUP_RANK")}
    os.environ.update(shared, RANK="0", LOCAL_RANK="0")
    others = {rank: _start(run, rank, shared) for rank in range(1, needed.world)}
    over = threading.Event()
    watch = threading.Thread(target=_watch, args=(run, others, over), name="ranks", daemon=True)
    watch.start()
    try:
        yield server.detach()  # the store closes it
        over.set()
        _wait(others, _LEAVE)
    except BaseException:
        over.set()
        _wait(others, 1.0)  # a rank that died is the reason, and has died by now
        for rank, process in others.items():
            if process.poll() not in _LEFT_WELL:
                _explain(run, rank, process.returncode)
        raise
    finally:
        over.set()
        for process in others.values():
            _end(process)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start(run: RunDirectory, rank: int, shared: dict[str, str]) -> subprocess.Popen[bytes]:
    own = {"RANK": str(rank), "LOCAL_RANK": str(rank), _PARENT: "1"}
    with run.log_of(rank).open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "embedexp", "resume", str(run.path)],
            stdin=subprocess.PIPE,  # its end tells that this process is gone, however it went
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **shared, **own},
        )


def _wait(processes: dict[int, subprocess.Popen[bytes]], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(p.poll() is None for p in processes.values()):
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _watch(
    run: RunDirectory, others: dict[int, subprocess.Popen[bytes]], over: threading.Event
) -> None:
    """End this process, too, where it hangs because another rank is gone."""
    while not over.wait(0.5):
        lost = [rank for rank, process in others.items() if process.poll() not in _LEFT_WELL]
        if not lost:
            continue
        for rank in lost:
            _explain(run, rank, others[rank].returncode)
        if not over.wait(_GRACE):
            told = rank_failures(run.path)[0]
            run.fail(str(RankFailedError(told)), told.kind, trace=told.traceback)
            os._exit(1)
        return


def _explain(run: RunDirectory, rank: int, code: int) -> None:
    """Say for a rank that ended without a word how it ended."""
    if not failure_file(run.path, rank).exists():
        kind, message = exit_failure(code)
        write_rank_failure(run.path, rank, message, kind)


def cause(config: Config, run: RunDirectory, error: BaseException) -> BaseException:
    """What made the first rank fail: its own error, or another's if it only lost contact."""
    if resources(config.compute).world == 1 or not _lost_contact(error):
        return error
    deadline = time.monotonic() + _TOLD
    while time.monotonic() < deadline:
        if told := rank_failures(run.path):
            return RankFailedError(told[0])
        time.sleep(0.2)
    return error


def _lost_contact(error: BaseException) -> bool:
    """Whether an error only says that another process went away."""
    named = f"{type(error).__name__}: {error}"
    return isinstance(error, RuntimeError | OSError) and says_peer_gone(named)


@contextmanager
def following(run: RunDirectory, rank: int) -> Iterator[None]:
    """The work of a rank after the first: a failure of its own is written down for the first."""
    _leave_with_parent()
    try:
        yield
    except Exception as error:
        if not _lost_contact(error):
            trace = redact("".join(traceback.format_exception(error)))
            message = redact(str(error).strip() or type(error).__name__)
            write_rank_failure(run.path, rank, message, failure_kind(error), trace)
            time.sleep(_TOGETHER)
        log.error("rank %d failed", rank, exc_info=error)
        raise


def _leave_with_parent() -> None:
    """End with the process that started this one: its end of the pipe closes when it is gone."""
    if _PARENT not in os.environ:
        return

    def wait() -> None:
        sys.stdin.buffer.read()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="parent", daemon=True).start()
