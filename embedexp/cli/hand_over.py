"""Handing over: models in other formats, vectors of many texts, the state of the machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

from . import OK
from .commands import default_runs, run_parser

if TYPE_CHECKING:
    from collections.abc import Sequence


def model_of(text: str, runs: str | None) -> Path | str:
    """The folder that a run's name, a path or a hub name means.

    Raises:
        UserError: a run fits whose model is not there.
    """
    from embedexp.runs.registry import resolve

    path = Path(text).expanduser()
    if path.exists():
        return path
    try:
        return resolve(text, runs or default_runs()).path
    except UserError:
        if text.count("/") == 1 and not text.startswith((".", "/", "~")):
            return text  # a name on the hub
        raise


def export(arguments: Sequence[str]) -> int:
    """Write a run's model in another format."""
    from embedexp.embedding.export import FORMATS, check

    parser = run_parser("export")
    parser.add_argument("run")
    parser.add_argument("--format", default=FORMATS[0])
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--dtype")
    given = parser.parse_intermixed_args(list(arguments))
    check(given.format, given.dtype)
    model = model_of(given.run, given.runs)

    from embedexp.stage.hand_over import export as carry_out

    embedder = carry_out(model, given.format, given.to, given.dtype)
    size = sum(path.stat().st_size for path in given.to.rglob("*") if path.is_file())
    print(f"{given.format}  {given.to}  ({size / 2**20:.1f} MiB, {embedder.width} dimensions)")
    print(f"card     {given.to / 'README.md'}")
    return OK
