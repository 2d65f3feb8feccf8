"""A search on disk: its study in Optuna's storage, and the one process that leads it."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from embedexp.config.errors import UserError
from embedexp.runs.trial import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from optuna import Study

    from .settings import Direction, SearchSettings
    from .space import Space

FOLDER = ".search"
_NETWORK = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "afs", "9p", "fuse.sshfs")
# What changes neither an experiment nor its place among others.
_NO_IDENTITY = ("paths.", "tracking", "hydra", "training.log_every", "training.checkpoint_every")
_QUESTION = "question"


def question(settings: SearchSettings, space: Space, fixed: Sequence[str]) -> dict[str, Any]:
    """What a study asks: a study with another one can't be gone on with."""
    kept = [text for text in fixed if not text.lstrip("+~").startswith(_NO_IDENTITY)]
    return {
        "fixed": sorted(kept),
        "space": [json.loads(json.dumps(asdict(one))) for one in space.parameters],
        "objectives": [list(pair) for pair in settings.objectives],
        "seeds": settings.seeds,
    }


def study_name(name: str, asked: dict[str, Any]) -> str:
    """`<name>-search-<6 hexadecimal digits>`: the same question is the same search."""
    text = json.dumps(asked, sort_keys=True)
    return f"{name}-search-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def storage_of(settings: SearchSettings, folder: Path) -> str:
    """The storage: a database's URL, or the full path of a journal file.

    Raises:
        UserError: it is one that several processes can't share safely, or holds a password, which
            would be written into the directory of every run.
    """
    if settings.storage is None:
        return str((folder / "journal.log").absolute())
    text = settings.storage
    scheme, separator, rest = text.partition("://")
    if not separator:
        return str(Path(text).expanduser().absolute())
    if _has_password(text):
        raise UserError(
            f"hydra.sweeper.storage={scheme}://... holds a password, which runs would keep",
            hint="leave it to the driver: PGPASSWORD or ~/.pgpass; ?read_default_file=~/.my.cnf",
        )
    if scheme.startswith("sqlite"):
        path = Path(rest.removeprefix("/"))
        if not rest.strip("/") or ":memory:" in rest:
            raise UserError(
                f"{text} is in the memory of one process, and runs are others",
                hint="leave hydra.sweeper.storage out: a journal file is kept beside the runs",
            )
        if (kind := file_system(path.absolute().parent)).startswith(_NETWORK):
            raise UserError(
                f"{text} is on a network file system ({kind}), where SQLite loses data",
                hint="leave hydra.sweeper.storage out, or use a database server's URL",
            )
        return f"{scheme}:///{path.absolute()}"
    return text


def _has_password(url: str) -> bool:
    parts = urlsplit(url)
    return bool(parts.password) or any(key.startswith("passw") for key, _ in parse_qsl(parts.query))


def file_system(folder: Path) -> str:
    """The type of the file system that holds `folder`; empty if nobody knows."""
    import psutil

    full = folder.resolve()
    found = [
        (len(part.mountpoint), part.fstype.lower())
        for part in psutil.disk_partitions(all=True)
        if full == Path(part.mountpoint) or Path(part.mountpoint) in full.parents
    ]
    return max(found)[1] if found else ""


def open_study(
    name: str, storage: str, asked: dict[str, Any], directions: Sequence[Direction]
) -> Study:
    """The study `name`, new or gone on with.

    Raises:
        UserError: there is one of that name which asks another question.
    """
    from optuna import create_study
    from optuna.samplers import RandomSampler

    opened = open_storage(storage)
    study = create_study(
        study_name=name,
        storage=opened,
        sampler=RandomSampler(),
        directions=list(directions),
        load_if_exists=True,
    )
    # Two that start one at the same time would write the same.
    known = study.user_attrs.get(_QUESTION)
    if known is None:
        study.set_user_attr(_QUESTION, asked)
    elif known != asked:
        parts = [key for key in asked if known.get(key) != asked[key]]
        raise UserError(
            f"the study {name} searches something else: its {', '.join(parts)} differ",
            hint="give hydra.sweeper.study another name, or leave it out",
        )
    return study


@contextmanager
def led(folder: Path) -> Iterator[None]:
    """Be the one process that chooses trials of the search in `folder`.

    Raises:
        UserError: another process is.
    """
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(
            f"the search {folder.name} is going on already, in another process",
            hint=f"follow it: python -m embedexp status {folder.name}",
        ) from None
    try:
        yield
    finally:
        lock.release()
