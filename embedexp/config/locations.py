"""Where the package's own files lie, in a checkout and in an installed wheel."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

PACKAGE = Path(__file__).resolve().parents[1]


@cache
def conf_dir() -> Path:
    """The folder of config groups: inside an installed package, else beside the package."""
    inside = PACKAGE / "conf"
    return inside if inside.is_dir() else PACKAGE.parent / "conf"


def search_folders(extra: Sequence[str | Path] = ()) -> list[Path]:
    """Every folder that holds options, the project's own first.

    Raises `UserError` where one of the `extra` folders does not exist.
    """
    folders = [Path(folder).expanduser().resolve() for folder in extra]
    for folder in folders:
        if not folder.is_dir():
            raise UserError(
                f"the config folder {folder} does not exist", hint="mend the path of --config-dir"
            )
    return [conf_dir(), *folders]


_STAMP: ContextVar[tuple[tuple[Path, ...], int] | None] = ContextVar("stamp", default=None)


def files_stamp(folders: Iterable[Path]) -> int:
    """A number that changes when an option's file in one of the folders is made or edited."""
    known = tuple(folders)
    held = _STAMP.get()
    if held is not None and held[0] == known:
        return held[1]
    files = (path for folder in known for path in sorted(folder.rglob("*.yaml")))
    stats = ((str(path), path.stat()) for path in files)
    return hash(tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats))


@contextmanager
def files_held(folders: Iterable[Path]) -> Iterator[None]:
    """Take the folders' files to be as they are now, for as long as the block lasts."""
    known = tuple(folders)
    token = _STAMP.set((known, files_stamp(known)))
    try:
        yield
    finally:
        _STAMP.reset(token)


def short(path: Path) -> str:
    """A path as a person would write it: from `conf/` on, or relative to where they are."""
    for base, prefix in ((conf_dir(), Path("conf")), (Path.cwd(), Path())):
        if path.is_relative_to(base):
            return str(prefix / path.relative_to(base))
    return str(path)
