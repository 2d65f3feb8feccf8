"""Misspelt overrides: every name in an override is looked up in the schema and in conf/."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

from . import tree
from .errors import UserError, closest, shorten
from .locations import search_folders
from .schema import GROUPS, Experiment
from .sources import Source, composed_from, groups, option_files, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hydra.core.override_parser.types import Override


class Situation:
    """What the user typed, and what could have been typed; each part is found when asked for."""

    def __init__(self, overrides: Sequence[str], config_dirs: Sequence[str | Path] = ()) -> None:
        self.overrides = list(overrides)
        self.config_dirs = tuple(config_dirs)
        self.folders = search_folders(config_dirs)

    @cached_property
    def sources(self) -> list[Source]:
        """The files in use; those of the defaults where the overrides cannot be composed."""
        for overrides in (self.overrides, []):
            try:
                return composed_from(overrides, self.config_dirs)
            except Exception:  # the reason is what is being explained
                continue
        return []

    def section(self, root: str) -> Any:
        """What the files in use hold at a key of the first level, without the command line."""
        merged: dict[str, Any] = {}
        for source in self.sources:
            if source.package in ("", root) or source.package.startswith(f"{root}."):
                node = merged
                for part in source.package.split(".") if source.package else []:
                    node = node.setdefault(part, {})
                _merge(node, read_yaml(source.path))
        return merged.get(root)

    @cached_property
    def groups(self) -> list[str]:
        """Every config group, Hydra's own among them."""
        from .compose import loader

        hydra = [f"hydra/{name}" for name in loader(self.config_dirs).list_groups("hydra")]
        return list(dict.fromkeys([*groups(self.folders), *hydra]))

    def options(self, group: str) -> list[str]:
        """Names of the options of a group."""
        if not group.startswith("hydra/"):
            return list(option_files(group, self.folders))
        from .compose import loader

        return loader(self.config_dirs).get_group_options(group)

    def option_name(self, group: str) -> str | None:
        """The value of `name` in the option that is in use."""
        section = self.section(group)
        return section.get("name") if isinstance(section, dict) else None


def _merge(node: dict[str, Any], other: dict[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(node.get(key), dict):
            _merge(node[key], value)
        else:
            node[key] = value


def surely_unknown(override: str, folders: Sequence[Path]) -> bool:
    """Whether no option of any group has the key of an override; cheap, and never wrong."""
    key = override.lstrip("+~").partition("=")[0]
    if not re.fullmatch(r"[A-Za-z_][\w.]*", key):
        return False
    root, *rest = key.split(".")
    if root not in Experiment.model_fields:
        return root != "hydra" and not any((folder / root).is_dir() for folder in folders)
    annotations: list[Any] = [Experiment.model_fields[root].annotation]
    for part in rest:
        found = [info for each in annotations for info in tree.below(each, part)]
        if None in found:  # a free mapping
            inside = [model for each in annotations if (model := tree.entries(each)) is not None]
            if not inside:
                return False
            annotations = inside
            continue
        annotations = [info.annotation for info in found if info is not None]
    return not annotations


def require_known(
    typed: Sequence[str], overrides: Sequence[str], config_dirs: Sequence[str | Path] = ()
) -> None:
    """Raise `UserError` if one of the overrides in `typed` seems to be misspelt."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    situation = Situation(overrides, config_dirs)
    for override in OverridesParser.create().parse_overrides(list(typed)):
        error = mistake(override, situation)
        if error is not None:
            raise error


def mistake(override: Override, situation: Situation) -> UserError | None:
    """The first unknown name in an override, or None if all its names are known."""
    key, typed = override.key_or_group, override.input_line or ""
    # Groups beside those of an experiment (probes, prompts, ...) are there to be put elsewhere.
    if override.package is not None and (key in GROUPS or key not in situation.groups):
        return UserError(
            "an option cannot be put into another place than its group",
            where=_where(typed),
            hint=f"without the @: {typed.replace(f'@{override.package}', '', 1)}",
        )
    if key in situation.groups:
        if not isinstance(override.value(), dict):
            return _option(override, key, situation)
    elif "/" in key:
        near = closest(key, situation.groups)
        return _unknown(f"there is no config group {key}", typed, _swap(typed, key, near))
    for parts in _keys(key.split("."), override):
        if parts[0] == "hydra":
            found = _hydra_key(parts, typed, situation)
        else:
            found = _key(parts, override, situation)
        if found is not None:
            return found
    return _prefix(override, situation)


def _keys(parts: list[str], override: Override) -> Iterator[list[str]]:
    """The key of an override; where it gives a mapping, each key in it."""
    value = None if override.is_sweep_override() else override.value()
    if not isinstance(value, dict) or not value:
        yield parts
        return
    stack = [(parts, value)]
    while stack:
        prefix, mapping = stack.pop()
        for name, inner in mapping.items():
            if isinstance(inner, dict) and inner:
                stack.append(([*prefix, str(name)], inner))
            else:
                yield [*prefix, str(name)]


def _option(override: Override, group: str, situation: Situation) -> UserError | None:
    typed, options = override.input_line or "", situation.options(group)
    if override.is_delete() or override.value() is None:
        return (
            UserError(
                f"every experiment needs the group {group}",
                where=_where(typed),
                hint=f"choose another option: {group}={'|'.join(options)}",
            )
            if group in GROUPS
            else None
        )
    for name in _names(override):
        if name not in options:
            mark = "" if group in GROUPS else typed[: len(typed) - len(typed.lstrip("+~"))]
            near = [f"{mark}{group}={option}" for option in closest(name, options)]
            have = f"{group} has {shorten(', '.join(options), 100)}"
            hint = f"did you mean {' or '.join(near)}? {have}" if near else have
            what = f"the group {group} has no option {shorten(name, 40)}"
            return UserError(what, where=_where(typed), hint=hint)
    if override.is_add() and group in GROUPS:
        return UserError(
            f"the group {group} has an option already",
            where=_where(typed),
            hint=f"without the +: {typed.lstrip('+')}",
        )
    in_defaults = group in GROUPS or group.startswith("hydra/")
    if not in_defaults and not override.is_add() and not override.is_force_add():
        return UserError(
            f"no experiment has the group {group} by itself",
            where=_where(typed),
            hint=f"add it: +{typed}",
        )
    return None


def _names(override: Override) -> list[str]:
    """The option names that an override gives, several in a sweep."""
    from hydra.core.override_parser.types import ValueType

    if not override.is_sweep_override():
        return [str(override.value())]
    if override.is_choice_sweep() and override.value_type is not ValueType.GLOB_CHOICE_SWEEP:
        return [text.strip("'\"") for text in override.sweep_string_iterator()]
    return []  # a glob takes what there is


def _key(parts: list[str], override: Override, situation: Situation) -> UserError | None:
    typed, root = override.input_line or "", parts[0]
    roots = [*Experiment.model_fields, "hydra", *(g for g in situation.groups if "/" not in g)]
    if root not in roots:
        # The nearest to the root first: what is deep is rarer.
        same_leaf = sorted(
            (key for key in tree.dotted_keys() if key.endswith("." + root)),
            key=lambda key: key.count("."),
        )
        near = [".".join([name, *parts[1:]]) for name in closest(root, roots)]
        if len(parts) == 1:
            near += same_leaf[:2]
        if not near:  # perhaps the end of a longer key
            leaves = {key.rpartition(".")[2]: key for key in reversed(tree.dotted_keys())}
            near = [leaves[leaf] for leaf in closest(parts[-1], leaves, cutoff=0.7)]
        what = f"there is no {'key or ' if len(parts) == 1 else ''}group {root}"
        return _unknown(what, typed, _swap(typed, ".".join(parts), near))
    if root not in Experiment.model_fields:  # a group that is not part of the experiment (paper)
        return None
    annotation: Any = Experiment.model_fields[root].annotation
    if root in GROUPS:
        annotation = tree.option_class(root, situation.option_name(root) or "") or annotation
    content: Any = situation.section(root)
    for depth, part in enumerate(parts[1:], 1):
        found = tree.below(annotation, part)
        if found == [None]:
            inside = tree.entries(annotation)
            others = [text for text in situation.overrides if text != override.input_line]
            wrong = _entry(parts, depth, override, _with_added(content, parts[:depth], others))
            if wrong is not None or inside is None:
                return wrong
            annotation = inside
            content = content.get(part) if isinstance(content, dict) else None
            continue
        if not found:
            return _no_such_key(parts, depth, annotation, typed, situation)
        fields = [info for info in found if info is not None]
        annotation = fields[0].annotation
        content = content.get(part) if isinstance(content, dict) else None
    return None


def _with_added(content: Any, parts: list[str], overrides: Sequence[str]) -> dict[str, Any]:
    """The entries of a free mapping, and those that overrides add as wholes."""
    prefix = f"+{'.'.join(parts)}."
    keys = [text.partition("=")[0] for text in overrides if text.startswith(prefix)]
    added = [key.removeprefix(prefix) for key in keys]
    return dict.fromkeys(name for name in added if "." not in name) | dict(content or {})


def _entry(parts: list[str], depth: int, override: Override, content: Any) -> UserError | None:
    """An entry of a free mapping: known by what the composed option holds."""
    typed, part, known = override.input_line or "", parts[depth], list(content or ())
    if part in known:
        return None
    adding = override.is_add() or override.is_force_add()
    # A new entry is fine, but one that is a letter or two away from another is a typo.
    near = closest(part, known, cutoff=0.75 if adding else 0.5)
    if adding and not near:
        return None
    parent = ".".join(parts[:depth])
    names = [".".join([*parts[:depth], name, *parts[depth + 1 :]]) for name in near]
    what = f"{parent} has no key {shorten(part, 40)}"
    if near:
        return _unknown(what, typed, _swap(typed, ".".join(parts), names))
    add = f"to add it, write +{shorten(typed)}" if not override.is_delete() else None
    return UserError(what, where=_where(typed), hint=add)


def _no_such_key(
    parts: list[str], depth: int, annotation: Any, typed: str, situation: Situation
) -> UserError:
    root, part, parent = parts[0], parts[depth], ".".join(parts[:depth])
    name = situation.option_name(root)
    here = f"{parent} ({root}={name})" if root in GROUPS and name else parent
    keys = tree.keys_below(annotation)
    near = closest(part, keys)
    owners: list[str] = []
    if root in GROUPS and depth == 1:
        others = tree.classes(root)
        owners = [option for option, cls in others.items() if part in cls.model_fields]
        if not near and not owners:
            elsewhere = [key for cls in others.values() for key in cls.model_fields]
            near = closest(part, elsewhere)
    names = [".".join([*parts[:depth], key, *parts[depth + 1 :]]) for key in near]
    hints = []
    if names:
        hints.append(f"did you mean {' or '.join(_swap(typed, '.'.join(parts), names))}?")
    if owners:
        owning = " and ".join(f"{root}={option}" for option in owners)
        hints.append(f"{parent}.{part} belongs to {owning}: add {root}={owners[0]}")
    if not hints:
        hints.append(f"it has {', '.join(keys)}" if keys else "it has no keys below it")
    return UserError(
        f"{here} has no key {shorten(part, 40)}", where=_where(typed), hint=" ".join(hints)
    )


def _hydra_key(parts: list[str], typed: str, situation: Situation) -> UserError | None:
    """A key below Hydra's own node, looked up in what Hydra composes by default."""
    from omegaconf import DictConfig, OmegaConf

    from .compose import compose_raw

    choices = [text for text in situation.overrides if text.startswith("hydra/")]
    node: Any = compose_raw(choices, situation.config_dirs, with_hydra=True)
    for depth, part in enumerate(parts):
        if not isinstance(node, DictConfig):
            return _unknown(f"{'.'.join(parts[:depth])} has no keys below it", typed, [])
        if part not in map(str, node):
            known = [str(key) for key in node]
            if not known:
                return None
            names = [
                ".".join([*parts[:depth], n, *parts[depth + 1 :]]) for n in closest(part, known)
            ]
            what = f"{'.'.join(parts[:depth])} has no key {part}"
            return _unknown(what, typed, _swap(typed, ".".join(parts), names))
        if OmegaConf.is_missing(node, part):
            return None
        node = node._get_node(part)
    return None


def _prefix(override: Override, situation: Situation) -> UserError | None:
    """A + before something that is there, or a ~ before something that must stay."""
    typed, key = override.input_line or "", override.key_or_group
    if key.startswith("hydra.") or key not in tree.dotted_keys():
        return None
    if override.is_delete():
        return UserError(
            f"{key} cannot be taken out: it has no other value to fall back to",
            where=_where(typed),
            hint=f"give it another value: {key}=...",
        )
    if override.is_add() and not isinstance(override.value(), dict | list):
        return UserError(
            f"{key} is there already", where=_where(typed), hint=f"without the +: {typed[1:]}"
        )
    return None


def _swap(typed: str, key: str, names: list[str]) -> list[str]:
    """The override as it would read with each of the names in place of `key`."""
    if key in typed:
        return [shorten(typed.lstrip("+~").replace(key, name, 1)) for name in names[:3]]
    return names[:3]


def _unknown(what: str, typed: str, near: list[str]) -> UserError:
    hint = f"did you mean {' or '.join(near)}?" if near else None
    return UserError(shorten(what, 120), where=_where(typed), hint=hint)


def _where(typed: str) -> str:
    return f"in the override {shorten(typed)}"
