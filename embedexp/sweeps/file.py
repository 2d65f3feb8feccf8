"""Read a sweep file; what is wrong with it is said with its line and the nearest valid name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from embedexp.config.errors import UserError, closest, nearest, shorten
from embedexp.config.locations import PACKAGE, short
from embedexp.config.sources import line_of

from .schema import Comparison, Entry, Figure, Measure, Paper, Published, Selection, Stage, Sweep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    import yaml

    try:
        content: Any = yaml.load(path.read_text(encoding="utf-8"), Loader=loader())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{short(path)} can't be read: {error}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{short(path)} is no valid YAML", hint=str(error)) from None
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
        raise _invalid(error, path) from None
    for keys, message, hint in _contradictions(sweep):
        raise UserError(message, where=_place(path, keys), hint=hint)
    return sweep


def loader() -> Any:
    """YAML's safe loader, which refuses a label that is there twice instead of dropping one."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                line = key.start_mark.line + 1
                raise yaml.YAMLError(f"{key.value!r} is there twice, again on line {line}")
            seen.add(key.value)
        loader.flatten_mapping(node)
        return loader.construct_mapping(node, deep=True)

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return Loader


def _place(path: Path, keys: Sequence[str]) -> str:
    for end in range(len(keys), 0, -1):
        line = line_of(path, keys[:end])
        if line is not None:
            return f"in {short(path)}:{line}"
    return f"in {short(path)}"


def _invalid(error: ValidationError, path: Path) -> UserError:
    first = error.errors(include_url=False)[0]
    keys = [str(part) for part in first["loc"] if part != "[key]"]
    dotted, where = ".".join(keys), _place(path, keys)
    if first["type"] == "extra_forbidden":
        near = closest(keys[-1], _siblings(keys))
        hint = f"did you mean {' or '.join(near)}?" if near else "take it out"
        return UserError(f"a sweep has no key {shorten(dotted, 60)}", where=where, hint=hint)
    if first["type"] == "missing":
        return UserError(f"{dotted} is missing", where=where, hint="give it a value")
    given = first["input"]
    if first["type"] == "literal_error":
        words = first["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        words += ["search"] if dotted == "mode" else []  # of another kind of file, with a space
        near = closest(str(given), words)
        listed = f"one of {', '.join(words)}"
        hint = f"did you mean {' or '.join(near)}? {listed}" if near else listed
        what = f"{shorten(given, 60)} is no {keys[-1]}"
        return UserError(what, where=where, hint=hint)
    way = "quote labels and numbers in overrides" if isinstance(given, bool | float) else None
    return UserError(f"{dotted}: {first['msg']}, not {shorten(given, 60)}", where=where, hint=way)


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


def _unknown(kind: str, name: str, known: Any) -> tuple[str, str]:
    best = nearest(name, known)
    way = f"did you mean {best}?" if best else f"there are: {', '.join(known) or 'none'}"
    return f"there is no {kind} {name!r}", way
