"""Read a sweep file; what is wrong with it is said with its line and the nearest valid name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from embedexp.config.errors import UserError, nearest
from embedexp.config.locations import PACKAGE, short

from .reading import content_of, invalid, place
from .schema import Comparison, Entry, Figure, Measure, Paper, Published, Selection, Stage, Sweep

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

_PARTS: tuple[type[BaseModel], ...] = (
    Sweep,
    Entry,
    Stage,
    Measure,
    Selection,
    Figure,
    Published,
    Comparison,
    Paper,
)


def sweeps_folder() -> Path:
    """The folder of the project's sweep files: inside an installed package, else beside it."""
    inside = PACKAGE / "sweep_files"
    return inside if inside.is_dir() else PACKAGE.parent / "sweeps"


def sweep_files() -> list[Path]:
    """The project's sweep files."""
    return sorted(sweeps_folder().rglob("*.yaml"))


def find(text: str) -> Path:
    """The sweep file that `text` means: a path, or one below the project's folder of sweeps.

    Raises:
        UserError: there is none; the nearest one is in the message.
    """
    folder = sweeps_folder()
    name = text.removeprefix("sweeps/")
    for path in (Path(text), folder / name, folder / f"{name}.yaml"):
        if path.is_file():
            return path
    known = [path.relative_to(folder).with_suffix("").as_posix() for path in sweep_files()]
    best = nearest(name.removesuffix(".yaml"), known)
    raise UserError(
        f"there is no sweep file {text}" + (f"; did you mean sweeps/{best}.yaml?" if best else ""),
        hint=f"there are {len(known)}: ls {short(folder)}/*" if known else None,
    )


def read(path: Path) -> Sweep:
    """The sweep in the file `path`.

    Raises:
        UserError: it can't be read, or says something that can't be meant.
    """
    content = content_of(path)
    if not isinstance(content, dict):
        raise UserError(f"{short(path)} holds no sweep", hint="it needs title, question and rows")
    if content.get("mode") == "search":
        raise UserError(
            f"{short(path)} is a search, which has no table",
            hint=f"carry it out: python -m embedexp sweep {short(path)}",
        )
    try:
        sweep = Sweep.model_validate(content)
    except ValidationError as error:
        raise invalid(error, path, "sweep", _siblings) from None
    for keys, message, hint in _contradictions(sweep):
        raise UserError(message, where=place(path, keys), hint=hint)
    return sweep


def _siblings(keys: Sequence[str]) -> list[str]:
    if len(keys) == 1:
        return list(Sweep.model_fields)
    return [name for part in _PARTS[1:] for name in part.model_fields]


def _contradictions(sweep: Sweep) -> Iterator[tuple[list[str], str, str]]:
    """What fits the schema and makes no sense: where, what, and the way out."""
    mode = sweep.mode
    if mode in ("one_at_a_time", "zip"):
        if not sweep.axes:
            yield ["mode"], f"mode {mode} needs axes", "axes: {NAME: {LABEL: [overrides], ...}}"
        if sweep.rows:
            yield ["rows"], f"mode {mode} makes the rows of its axes", "take rows out"
    if mode == "list" and (sweep.columns or sweep.axes):
        key = "columns" if sweep.columns else "axes"
        yield [key], f"mode list takes its cells from rows; it has no {key}", "use mode grid"
    if mode == "zip" and len({len(labels) for labels in sweep.axes.values()}) > 1:
        sizes = ", ".join(f"{name} {len(labels)}" for name, labels in sweep.axes.items())
        yield ["axes"], f"mode zip pairs labels, but axes differ in length: {sizes}", "use grid"
    if mode == "chain" and not sweep.stages:
        yield ["mode"], "mode chain needs stages", "stages: {pretrain: [...], finetune: [...]}"
    if mode != "chain" and not sweep.rows and not sweep.axes:
        yield ["mode"], f"mode {mode} needs rows", "rows: {LABEL: [overrides], ...}"
    if len(set(sweep.seeds)) < len(sweep.seeds):
        yield ["seeds"], "a seed is named twice", "name each seed once"
    entries = [("rows", sweep.rows), ("columns", sweep.columns)]
    for axis, labels in [
        *entries,
        *((f"axes.{name}", found) for name, found in sweep.axes.items()),
    ]:
        for label, entry in labels.items():
            named = [*entry.stages, *(entry.only or ()), *([entry.show] if entry.show else [])]
            for stage in named:
                if stage not in sweep.stages:
                    yield [*axis.split("."), label], *_unknown("stage", stage, sweep.stages)


def _unknown(kind: str, name: str, known: Collection[str]) -> tuple[str, str]:
    best = nearest(name, known)
    way = f"did you mean {best}?" if best else f"there are: {', '.join(known) or 'none'}"
    return f"there is no {kind} {name!r}", way
