"""Where the package's own files lie, in a checkout and in an installed wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def files_stamp(folders: Iterable[Path]) -> int:
    """A number that changes when a YAML file of the folders does."""
    files = (path for folder in folders for path in sorted(folder.rglob("*.yaml")))
    stats = ((str(path), path.stat()) for path in files)
    return hash(tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats))


def short(path: Path) -> str:
    """A path as a person would write it: from `conf/` on, or relative to where they are."""
    for base, prefix in ((conf_dir(), Path("conf")), (Path.cwd(), Path())):
        if path.is_relative_to(base):
            return str(prefix / path.relative_to(base))
    return str(path)
