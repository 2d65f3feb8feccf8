"""The run directory: the one place where a run writes, and what others read about it."""

from __future__ import annotations

import dataclasses
import os
import shutil
import threading
import time
import traceback
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, shorten
from embedexp.files import write_atomically

from .environment import environment, write_environment
from .failure import FailureKind, failure_kind
from .job import Job, read_job, requested_at, scheduler_job, write_request
from .log import recording
from .metrics import Metrics
from .status import (
    BEAT_SECONDS,
    TRANSITIONS,
    State,
    Status,
    now,
    read_status,
    this_process,
    write_status,
)
from .text import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embedexp.config import Config

UPDATE_SECONDS = 1.0


class RunDirectory:
    """`runs/<name>-<signature>/`: frozen config, status, metrics, provenance, log and results.

    Reading needs nothing; whoever computes the run does it inside `with run.owned():`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.metrics = Metrics(self.path / "metrics.jsonl")
        self._own: Status | None = None
        self._own_since = 0.0
        self._seconds_before = 0.0
        self._last_write = 0.0
        self._writing = threading.RLock()
        self._on_cancel: Callable[[], None] | None = None

    @classmethod
    def of(cls, config: Config) -> RunDirectory:
        """The directory that belongs to `config`, whether or not it exists yet."""
        return cls(Path(config.paths.runs) / config.run_name)

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    @property
    def name(self) -> str:
        """Name and signature: the last part of the path."""
        return self.path.absolute().name

    @property
    def signature(self) -> str:
        """The ten hexadecimal digits after the name's last dash."""
        return self.name.rpartition("-")[2]

    @property
    def config_file(self) -> Path:
        """The frozen, resolved config."""
        return self.path / "config.yaml"

    @property
    def status_file(self) -> Path:
        """State, progress and failure."""
        return self.path / "status.json"

    @property
    def environment_file(self) -> Path:
        """Versions, code, hardware, seed and data."""
        return self.path / "environment.json"

    @property
    def log_file(self) -> Path:
        """What the run's processes logged and printed."""
        return self.path / "log.txt"

    def log_of(self, rank: int) -> Path:
        """What rank `rank` logged; rank 0 is the one that owns the run."""
        return self.log_file if rank == 0 else self.path / f"log.rank{rank}.txt"

    @property
    def logs(self) -> list[Path]:
        """The logs that there are, of rank 0 first."""
        others = sorted(self.path.glob("log.rank*.txt"), key=lambda path: (len(path.name), path))
        return [*([self.log_file] if self.log_file.exists() else []), *others]

    @property
    def checkpoints(self) -> Path:
        """Where training can be resumed from."""
        return self.path / "checkpoints"

    @property
    def model(self) -> Path:
        """The trained model in sentence-transformers format."""
        return self.path / "model"

    @property
    def evaluation(self) -> Path:
        """Scores and what belongs to them."""
        return self.path / "evaluation"

    @property
    def analysis(self) -> Path:
        """What analyses found, one JSON and one PNG each."""
        return self.path / "analysis"

    @property
    def scores_file(self) -> Path:
        """Scores before and after training."""
        return self.evaluation / "scores.json"

    @property
    def job_file(self) -> Path:
        """Who was asked to carry the run out."""
        return self.path / "job.json"

    @property
    def job(self) -> Job | None:
        """The launcher's job, or None if no launcher has taken the run on."""
        return read_job(self.job_file)

    @property
    def cancel_file(self) -> Path:
        """There while the run is asked to stop for good."""
        return self.path / "cancel.json"

    @property
    def cancel_requested(self) -> bool:
        """Whether someone has asked, from anywhere, that the run be cancelled."""
        return self.cancel_file.exists()

    def request_cancel(self) -> None:
        """Ask whoever runs this, wherever that is, to save and to end it as cancelled."""
        write_request(self.cancel_file)

    def forget_cancel(self) -> None:
        """Take back a request to cancel, since the run is started again."""
        self.cancel_file.unlink(missing_ok=True)

    def when_cancelled(self, callback: Callable[[], None]) -> None:
        """Have `callback` called, once, when a cancel is requested; at once if it is already.

        Looked for with every sign of life, in another thread, for as long as the run is owned.
        """
        self._owned_status()
        self._on_cancel = callback
        self._look_for_cancel()

    def _look_for_cancel(self) -> None:
        with self._writing:
            if self._on_cancel is None or not self.cancel_requested:
                return
            callback, self._on_cancel = self._on_cancel, None
        callback()

    @property
    def status(self) -> Status:
        """The status as it is now; planned if nothing has happened yet."""
        return self._own if self._own is not None else read_status(self.status_file)

    @property
    def config(self) -> Config:
        """The frozen config.

        Raises:
            UserError: there is none, or this version can't read it.
        """
        from embedexp.config import Config

        if not self.config_file.exists():
            raise UserError(
                f"{self.path} is not a run directory",
                where="it holds no config.yaml",
                hint="list the runs: python -m embedexp status",
            )
        return Config.load(self.config_file)

    def freeze(self, config: Config) -> None:
        """Make the directory and write `config` into it; its state becomes planned if it has none.

        Keys that do not count for the signature may change from one start to the next.

        Raises:
            UserError: the directory holds another experiment's config, or can't be written.
        """
        try:
            self._freeze(config)
        except OSError as error:
            runs, name = shorten(config.paths.runs, 60), shorten(config.name, 60)
            raise UserError(
                f"{shorten(self.path, 100)} can't be written: {error.strerror}",
                where=f"paths.runs={runs}, name={name}",
                hint="set paths.runs to a folder in which you may write; shorten a long name",
            ) from None

    def _freeze(self, config: Config) -> None:
        # `rerun` is a wish about one command, not a part of what later ones should continue.
        text = config.model_copy(update={"rerun": False}).to_yaml()
        if self.config_file.exists():
            if self.config_file.read_text(encoding="utf-8") == text:
                return
            frozen = self.config.signature
            if frozen != config.signature:
                raise UserError(
                    f"{self.path} holds another experiment ({frozen}, not {config.signature})",
                    where=f"{self.config_file} was changed, or what it reads was",
                    hint="move the directory away, or set another name=",
                )
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.config_file, text)
        if not self.status_file.exists():
            write_status(self.status_file, Status(heartbeat=now(), seed=config.seed))

    def record_environment(self, *, seed: int, data_fingerprint: str | None) -> None:
        """Write down with what this run is computed; earlier environments that differ are kept."""
        current = environment(seed=seed, data_fingerprint=data_fingerprint)
        write_environment(self.environment_file, current)

    def recording(self) -> AbstractContextManager[None]:
        """A context in which log records and warnings of this process go to `log.txt`."""
        self.path.mkdir(parents=True, exist_ok=True)
        return recording(self.log_file)

    @contextmanager
    def owned(self) -> Iterator[RunDirectory]:
        """Hold the run's lock, and give a sign of life at least every 15 seconds while it runs.

        Raises:
            UserError: another process, named in the message, holds it.
        """
        from filelock import FileLock, Timeout

        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / "lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            status = read_status(self.status_file)
            owner = f"process {status.pid} on {status.host}" if status.pid else "another process"
            raise UserError(
                f"{self.path} is already being run by {owner}",
                hint=f"follow it: python -m embedexp logs {self.path} -f",
            ) from None
        stop = threading.Event()
        beat = threading.Thread(target=self._beat, args=(stop,), name="heartbeat", daemon=True)
        try:
            self._own, self._own_since = read_status(self.status_file), 0.0
            beat.start()
            self._drop_old_request(self._own)
            yield self
        finally:
            stop.set()
            beat.join()
            self._own = self._on_cancel = None
            lock.release()

    def _drop_old_request(self, status: Status) -> None:
        requested = requested_at(self.cancel_file)
        if requested is None:
            return
        job = self.job
        if job is not None and job.is_this_process:
            # What a scheduler starts once more is still the job that was to be cancelled.
            old = requested < datetime.fromisoformat(job.submitted)
        else:
            created = datetime.fromtimestamp(this_process()["process_created"], UTC)
            old = status.state is State.CANCELLED or requested < created
        if old:
            self.forget_cancel()

    def start(self, stage: str, *, total_steps: int | None = None, seed: int | None = None) -> None:
        """Say that this process runs the run from now on; clears what an earlier failure left."""
        with self._writing:
            status = self._owned_status()
            self._seconds_before, self._own_since = status.seconds, time.monotonic()
            self._move(
                State.RUNNING,
                **this_process(),
                job=scheduler_job(),
                nodes=os.environ.get("SLURM_JOB_NODELIST"),
                starts=status.starts + 1,
                stage=stage,
                total_steps=total_steps,
                seed=seed,
                started=status.started or now(),
                finished=None,
                rate=None,
                eta_seconds=None,
                message=None,
                failure=None,
                traceback=None,
            )

    def update(
        self,
        *,
        step: int | None = None,
        total_steps: int | None = None,
        rate: float | None = None,
        eta_seconds: float | None = None,
        message: str | None = None,
        stage: str | None = None,
    ) -> None:
        """Report progress; cheap to call at every step, written at most once a second.

        Args:
            step: Optimizer steps done.
            total_steps: Optimizer steps in all.
            rate: Samples per second.
            eta_seconds: Seconds to the end.
            message: What the run is doing, in a few words; an empty one clears it.
            stage: The stage, where a run goes through several.
        """
        given: dict[str, Any] = {
            "step": step,
            "total_steps": total_steps,
            "rate": rate,
            "eta_seconds": eta_seconds,
            "message": message,
            "stage": stage,
        }
        changes = {key: value for key, value in given.items() if value is not None}
        with self._writing:
            # Kept in memory always, so that the last step before an end is never lost.
            self._own = dataclasses.replace(self._owned_status(), **changes)
            if time.monotonic() - self._last_write >= UPDATE_SECONDS:
                self._write()

    def finish(self, message: str | None = None) -> None:
        """Say that the run is complete."""
        self._end(State.FINISHED, message=message, eta_seconds=None)

    def preempt(self, message: str) -> None:
        """Say that the run was stopped after a checkpoint and can go on from there."""
        self._end(State.PREEMPTED, message=message, eta_seconds=None)

    def cancel(self, message: str) -> None:
        """Say that the run was stopped on purpose."""
        self._end(State.CANCELLED, message=message, eta_seconds=None)

    def skip(self, message: str) -> None:
        """Say that the run was not started, since what it reads did not come to be."""
        self._end(State.SKIPPED, message=message, eta_seconds=None)

    def fail(
        self,
        error: BaseException | str,
        kind: FailureKind | None = None,
        *,
        trace: str | None = None,
    ) -> None:
        """Say why the run failed: an exception with its traceback, or a description and a kind.

        A description may come with the `trace` that another process has left.
        """
        if isinstance(error, BaseException):
            kind = kind or failure_kind(error)
            trace = redact("".join(traceback.format_exception(error)))
            error = str(error) or type(error).__name__
        message = redact(error.strip())
        kind = kind or FailureKind.ERROR
        self._end(State.FAILED, message=message, failure=kind, traceback=trace, eta_seconds=None)

    def log_traceback(self, error: BaseException) -> None:
        """Append the traceback of `error` to `log.txt`, without secrets."""
        text = redact("".join(traceback.format_exception(error)))
        with self.log_file.open("a", encoding="utf-8") as log:
            log.write(text)

    def queue(self, message: str | None = None) -> None:
        """Say that a launcher has taken the run on and it waits for its turn."""
        with self._writing:
            self._move(State.QUEUED, message=message, failure=None, traceback=None, finished=None)

    def clear(self) -> None:
        """Forget everything but the frozen config, so that the run starts from the beginning.

        Raises:
            UserError: this is not a run directory; nothing is deleted.
        """
        with self._writing:
            config = self.config
            self._owned_status()
            for entry in self.path.iterdir():
                if entry.name in {self.config_file.name, "lock"}:
                    continue
                if entry.name == self.log_file.name:
                    # Emptied, not removed: this process may be recording into it already.
                    entry.write_bytes(b"")
                elif entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
            self._own = Status(seed=config.seed)
            self._write()

    def _owned_status(self) -> Status:
        if self._own is None:
            raise RuntimeError("only the owner may change a run: use `with run.owned():`")
        return self._own

    def _end(self, state: State, **changes: Any) -> None:
        with self._writing:
            self._move(state, finished=now(), **changes)

    def _move(self, state: State, **changes: Any) -> None:
        status = self._owned_status()
        if state not in TRANSITIONS[status.state]:
            raise ValueError(f"a run that is {status.state} can't become {state}")
        # While running, `seconds` grows; the time spent counts up to the end of running.
        self._count_seconds()
        self._own = dataclasses.replace(self._owned_status(), state=state, **changes)
        self._write()

    def _count_seconds(self) -> None:
        status = self._owned_status()
        if status.state is State.RUNNING and self._own_since:
            seconds = self._seconds_before + time.monotonic() - self._own_since
            self._own = dataclasses.replace(status, seconds=round(seconds, 1))

    def _write(self) -> None:
        self._count_seconds()
        self._own = dataclasses.replace(self._owned_status(), heartbeat=now())
        write_status(self.status_file, self._own)
        self._last_write = time.monotonic()

    def _beat(self, stop: threading.Event) -> None:
        while not stop.wait(BEAT_SECONDS / 3):
            self._look_for_cancel()
            with self._writing:
                # Not before `start`: a status left by a killed process must not look alive.
                started = self._own is not None and self._own_since > 0
                running = started and self.status.state is State.RUNNING
                if running and time.monotonic() - self._last_write > BEAT_SECONDS / 3:
                    self._write()
