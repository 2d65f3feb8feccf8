"""The processes of one run: who starts them, what becomes of the others when one fails."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError
from embedexp.config.resources import Resources, resources
from embedexp.runs import FailureKind, RunDirectory, failure_kind
from embedexp.runs.failure import exit_failure
from embedexp.runs.files import write_atomically
from embedexp.runs.text import redact
from embedexp.training.world import VARIABLES, World

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embedexp.config import Config

_PARENT = "EMBEDEXP_PARENT"  # set where standard input tells that the starting process is gone
_GRACE = 20.0  # seconds in which a rank notices by itself that another is gone
_TOGETHER = 2.0  # seconds in which the first rank meets the same error, and writes it down itself
_LEAVE = 60.0  # seconds in which ranks end after the first one has
# What gloo, nccl and the store say when a peer goes away.
_LOST = re.compile(
    r"gloo|nccl|connection (was )?(closed|reset|refused)|broken pipe|socket|peer|DistBackend|"
    r"DistNetwork|DistStore|timed? ?out",
    re.IGNORECASE,
)
log = logging.getLogger(__name__)


class RankFailedError(RuntimeError):
    """Another rank of this run failed; the message holds its traceback."""


class Follower(RunDirectory):
    """The run as ranks after the first see it: they read it, and leave writing to the first."""

    def update(self, **_: Any) -> None:
        """Nothing: the first rank says how far the run is."""


def log_file(run: RunDirectory, rank: int) -> Path:
    """Where a rank after the first logs."""
    return run.path / f"log.rank{rank}.txt"


def failure_file(run: RunDirectory, rank: int) -> Path:
    """Where a rank after the first says why it failed."""
    return run.path / f"failure.rank{rank}.json"


@contextmanager
def together(config: Config, run: RunDirectory) -> Iterator[tuple[World, int | None]]:
    """The world of the first rank, with the other ranks started where nobody else does.

    Gives the socket on which the first rank is to listen, too, if it is bound already. When the
    block ends, so do the other ranks.

    Raises:
        UserError: the processes that there are do not fit `compute`.
    """
    needed, world = resources(config.compute), World.of_environment()
    if world.size > 1:
        _require_as_asked(config, needed, world)
        for old in run.path.glob("failure.rank*.json"):
            old.unlink()
        yield world, None
    elif needed.world == 1:
        yield world, None
    elif needed.nodes > 1:
        raise UserError(
            f"compute.nodes={needed.nodes} needs {needed.nodes} machines, and this is one",
            hint="add -m hydra/launcher=slurm, or set compute.nodes=1",
        )
    else:
        with _started(run, needed) as listening:
            yield World.of_environment(), listening


def _require_as_asked(config: Config, needed: Resources, world: World) -> None:
    if (world.size, world.local_size) == (needed.world, needed.devices):
        return
    raise UserError(
        f"WORLD_SIZE={world.size} and LOCAL_WORLD_SIZE={world.local_size}, but compute="
        f"{config.compute.name} asks for {needed.nodes} x {needed.devices} processes",
        hint="set compute.nodes and compute.devices to what the launcher starts",
    )


@contextmanager
def _started(run: RunDirectory, needed: Resources) -> Iterator[int]:
    """Ranks 1 to n-1 as processes of their own; this process becomes rank 0."""
    for old in [*run.path.glob("failure.rank*.json"), *run.path.glob("log.rank*.txt")]:
        old.unlink()
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
            if process.poll() not in (None, 0):
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
    with log_file(run, rank).open("ab") as output:
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
        lost = [rank for rank, process in others.items() if process.poll() not in (None, 0)]
        if not lost:
            continue
        for rank in lost:
            _explain(run, rank, others[rank].returncode)
        if not over.wait(_GRACE):
            error, kind = _told(run)
            run.fail(error or RankFailedError(f"rank {lost[0]} is gone"), kind)
            os._exit(1)
        return


def _explain(run: RunDirectory, rank: int, code: int) -> None:
    """Say for a rank that ended without a word how it ended."""
    if code != 130 and not failure_file(run, rank).exists():
        kind, message = exit_failure(code)
        _write_failure(run, rank, message, kind, "")


def failure(
    config: Config, run: RunDirectory, error: BaseException
) -> tuple[BaseException, FailureKind | None]:
    """What made the first rank fail: its own error, or another's if it only lost contact."""
    if resources(config.compute).world == 1 or not lost_contact(error):
        return error, None
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        told, kind = _told(run)
        if told is not None:
            return told, kind
        time.sleep(0.2)
    return error, None


def lost_contact(error: BaseException) -> bool:
    """Whether an error only says that another process went away."""
    named = f"{type(error).__name__}: {error}"
    return isinstance(error, RuntimeError | OSError) and bool(_LOST.search(named))


def _told(run: RunDirectory) -> tuple[RankFailedError | None, FailureKind | None]:
    """The earliest failure that another rank has written down."""
    found = []
    for path in run.path.glob("failure.rank*.json"):
        try:
            found.append((json.loads(path.read_bytes()), path))
        except (OSError, ValueError):
            continue
    if not found:
        return None, None
    first, path = min(found, key=lambda pair: float(pair[0]["time"]))
    rank = path.name.removeprefix("failure.rank").removesuffix(".json")
    text = f"rank {rank}: {first['message']}"
    if first["traceback"]:
        text += f"\n{first['traceback']}"
    return RankFailedError(text), FailureKind(first["kind"])


def _write_failure(
    run: RunDirectory, rank: int, message: str, kind: FailureKind, trace: str
) -> None:
    content = {"message": message, "kind": kind, "traceback": trace, "time": time.time()}
    write_atomically(failure_file(run, rank), json.dumps(content, indent=2) + "\n")


@contextmanager
def following(run: RunDirectory, rank: int) -> Iterator[None]:
    """The work of a rank after the first: a failure of its own is written down for the first."""
    _leave_with_parent()
    try:
        yield
    except Exception as error:
        if not lost_contact(error):
            trace = redact("".join(traceback.format_exception(error)))
            text = redact(str(error).strip() or type(error).__name__)
            _write_failure(run, rank, text, failure_kind(error), trace)
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
