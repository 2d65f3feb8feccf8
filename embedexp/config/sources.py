"""The YAML files that an experiment is composed from, and where in them a key stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .locations import conf_dir, search_folders, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Source:
    """One file of the composition; its keys stand below the dotted key `package`."""

    package: str
    path: Path


def option_files(group: str, folders: Iterable[Path] = ()) -> dict[str, Path]:
    """The options of a group, by name; `a/b` for an option in a folder below the group's."""
    found: dict[str, Path] = {}
    for folder in folders or (conf_dir(),):
        base = folder / group
        for path in sorted(base.rglob("*.yaml")):
            found.setdefault(path.relative_to(base).with_suffix("").as_posix(), path)
    return found


def groups(folders: Iterable[Path]) -> list[str]:
    """Every group of the folders: names of folders that hold YAML files, the topmost ones.

    `paper/x/y.yaml` is option `x/y` of group `paper`; Hydra's own groups have two parts.
    """
    found: dict[str, None] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.yaml")):
            parts = path.relative_to(folder).parent.parts
            if parts:
                found["/".join(parts[:2]) if parts[0] == "hydra" else parts[0]] = None
    return list(found)


def read_yaml(path: Path) -> dict[str, Any]:
    """The file's mapping; empty if it holds none."""
    import yaml

    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def line_of(path: Path, keys: Sequence[str]) -> int | None:
    """Line, counted from 1, on which the nested key stands in a YAML file; None if it does not."""
    import yaml

    node = yaml.compose(path.read_text(encoding="utf-8"))
    line = None
    for key in keys:
        if not isinstance(node, yaml.MappingNode):
            return None
        found = [(k, v) for k, v in node.value if k.value == key]
        if not found:
            return None
        line, node = found[-1][0].start_mark.line + 1, found[-1][1]
    return line


def composed_from(overrides: Sequence[str], config_dirs: Sequence[str | Path] = ()) -> list[Source]:
    """The files that Hydra composes, in the order in which later ones win.

    Raises Hydra's exceptions where the options themselves cannot be found.
    """
    folders = search_folders(config_dirs)
    return _plain_composition(overrides, folders) or _hydra_composition(
        overrides, config_dirs, folders
    )


def _plain_composition(overrides: Sequence[str], folders: Sequence[Path]) -> list[Source] | None:
    """The files where only options of the known groups are chosen; None where Hydra must say.

    It saves a good part of the time that an error takes.
    """
    from .schema import GROUPS

    primary = conf_dir() / "config.yaml"
    defaults = read_yaml(primary)["defaults"]
    choices = {
        group: name
        for entry in defaults
        if isinstance(entry, dict)
        for group, name in entry.items()
    }
    known = groups(folders)
    for text in overrides:
        group, _, name = text.partition("=")
        if group in GROUPS:
            choices[group] = name
        elif group.lstrip("+~") in known and not group.startswith("hydra/"):
            return None
    found = []
    for group in GROUPS:
        path = next(
            (p for folder in folders if (p := folder / group / f"{choices[group]}.yaml").is_file()),
            None,
        )
        if path is None or "defaults:" in path.read_text(encoding="utf-8"):
            return None
        found.append(Source(group, path))
    return [*found, Source("", primary)]


def _hydra_composition(
    overrides: Sequence[str], config_dirs: Sequence[str | Path], folders: Sequence[Path]
) -> list[Source]:
    from hydra.types import RunMode

    from .compose import PRIMARY, loader

    listing = loader(config_dirs).compute_defaults_list(PRIMARY, list(overrides), RunMode.RUN)
    found = []
    for default in listing.defaults:
        paths = (folder / f"{default.config_path}.yaml" for folder in folders)
        path = next((path for path in paths if path.is_file()), None)
        if path is not None:
            found.append(Source((default.package or "").replace("_global_", ""), path))
    return found


def where_is(dotted: str, sources: Iterable[Source]) -> tuple[str, Path] | None:
    """`file:line` of the value that wins for a dotted key, and the file."""
    for source in reversed(list(sources)):
        prefix = f"{source.package}." if source.package else ""
        if not dotted.startswith(prefix):
            continue
        line = line_of(source.path, dotted.removeprefix(prefix).split("."))
        if line is not None:
            return f"{short(source.path)}:{line}", source.path
    return None
