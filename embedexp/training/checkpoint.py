"""Checkpoints on disk: folders that are either whole, with a marker that says so, or ignored."""

from __future__ import annotations

import json
import logging
import re
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from embedexp.files import to_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MARKER = "complete.json"
"""Written last: what the folder holds, file by file, and the mean loss since the one before."""

_NAME = re.compile(r"step-(\d{8,})")
_PARTIAL = ".partial-"
log = logging.getLogger(__name__)


def name_of(step: int) -> str:
    """The name of the checkpoint after `step` finished steps."""
    return f"step-{step:08d}"


def step_of(path: Path) -> int:
    """The number of finished steps in a checkpoint's name."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path} is not a checkpoint's name")
    return int(match[1])


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoints in `folder`, oldest first; half-written ones have another name."""
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if _NAME.fullmatch(p.name) and p.is_dir())


def whole(folder: Path) -> Iterator[Path]:
    """Checkpoints that are complete, newest first; damaged ones are put aside with a warning."""
    for path in reversed(checkpoints(folder)):
        if problem := _problem(path):
            put_aside(path, problem)
        else:
            yield path


def is_whole(path: Path) -> bool:
    """Whether a checkpoint holds all that it was written with."""
    return _problem(path) is None


def latest(folder: Path) -> Path | None:
    """The newest complete checkpoint; damaged ones are put aside with a warning."""
    return next(whole(folder), None)


def put_aside(path: Path, problem: str) -> None:
    """Keep a damaged checkpoint under another name.

    Under its own name it would count among the newest to be kept, before whole ones.
    """
    log.warning("ignoring the damaged checkpoint %s (%s)", path, problem)
    aside = path.with_name(f"damaged-{path.name}")
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)


def loss_of(path: Path) -> float | None:
    """The mean training loss of the steps between a checkpoint and the one before."""
    loss: float | None = _marker(path).get("loss")
    return loss


@contextmanager
def writing(folder: Path, step: int, *, loss: float | None) -> Iterator[Path]:
    """A folder to write the checkpoint of `step` into; it gets its name when all is on disk."""
    path = folder / name_of(step)
    partial = prepare(folder, step)
    yield partial
    files = {p.name: p.stat().st_size for p in sorted(partial.iterdir())}
    marker = partial / MARKER
    marker.write_text(json.dumps({"step": step, "loss": loss, "files": files}), encoding="utf-8")
    to_disk(marker)
    to_disk(partial)
    if path.exists():  # not whole, or it would not be written again
        put_aside(path, "it is being written again")
    partial.rename(path)
    to_disk(folder)


def prepare(folder: Path, step: int) -> Path:
    """The empty folder under whose name the checkpoint of `step` is written."""
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{_PARTIAL}*"):
        shutil.rmtree(leftover)
    partial = partial_path(folder, step)
    partial.mkdir()
    return partial


def partial_path(folder: Path, step: int) -> Path:
    """Where the checkpoint of `step` lies while it is being written."""
    return folder / f"{_PARTIAL}{name_of(step)}"


def prune(folder: Path, keep: int, best: int) -> None:
    """Delete all checkpoints but the newest `keep` and the `best` with the lowest loss."""
    found = checkpoints(folder)
    kept = {*found[len(found) - keep :], *best_of(folder, best)}
    for path in found:
        if path not in kept:
            # Renamed first: half a checkpoint must not pass for one.
            doomed = path.rename(path.with_name(f"{_PARTIAL}{path.name}"))
            shutil.rmtree(doomed)


def best_of(folder: Path, count: int) -> list[Path]:
    """The `count` checkpoints with the lowest loss, the best first."""
    losses = [(loss, path) for path in checkpoints(folder) if (loss := loss_of(path)) is not None]
    return [path for _, path in sorted(losses)[:count]]


def forget(folder: Path, best: int) -> None:
    """Delete what only served to resume: all but the `best` checkpoints with the lowest loss."""
    prune(folder, 0, best)
    if not checkpoints(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _problem(path: Path) -> str | None:
    """What is missing from a checkpoint; None if nothing is."""
    marker = _marker(path)
    if not marker:
        return f"no {MARKER}"
    for name, size in marker["files"].items():
        try:
            found = (path / name).stat().st_size
        except OSError:
            return f"{name} is missing"
        if found != size:
            return f"{name} has {found} bytes instead of {size}"
    return None


def _marker(path: Path) -> dict[str, Any]:
    try:
        content = json.loads((path / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) and "files" in content else {}
