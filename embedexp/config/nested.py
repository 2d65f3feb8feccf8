"""Options inside options: what a source of a mixture does not say, its own file says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .sources import option_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from omegaconf import DictConfig


def fill(raw: DictConfig, folders: Sequence[Path] = ()) -> None:
    """Complete the sources of `data=mixture` in a composed config, in place; a second time is idle.

    The keys of a source's `data` come from the file of the option that it names, its other keys
    from `data.each`. What the source says itself stays.
    """
    from omegaconf import DictConfig

    data: Any = raw._get_node("data")
    if not isinstance(data, DictConfig) or data._get_node("sources", validate_access=False) is None:
        return
    sources: Any = data._get_node("sources")
    if not isinstance(sources, DictConfig) or sources._is_none() or sources._is_interpolation():
        return
    given = _content(sources)
    shared = list(data.get("each") or ())
    files = option_files("data", folders)
    known: dict[str, Any] = {}
    filled = {name: _filled(source, shared, files, known) for name, source in given.items()}
    if filled != given:
        # Assigning it would copy it, which takes longer than all of the above.
        content: Any = data._content
        content["sources"] = DictConfig(filled, key="sources", parent=data)


def alone(group: str, option: str, folders: Sequence[Path]) -> Any:
    """What an option says by itself; None where only Hydra can tell.

    It can where options of other groups take part, or the option is for another group's keys.
    """
    from .reading import load

    files = option_files(group, folders)
    todo, seen = [option], set[str]()
    while todo:
        name = todo.pop()
        if name not in files or "@package" in files[name].read_text(encoding="utf-8"):
            return None
        seen.add(name)
        listed = load(files[name]).get("defaults") or ()
        if not all(isinstance(entry, str) for entry in listed):
            return None
        todo += [entry for entry in listed if entry != "_self_" and entry not in seen]
    return _whole(option, files)


def _filled(
    source: Any, shared: Sequence[str], files: Mapping[str, Path], known: dict[str, Any]
) -> Any:
    """One source with what its option's file and `data.each` say; `known` keeps the files."""
    if not isinstance(source, dict):
        return source
    own: Any = source.get("data")
    option: Any = own.get("name") if isinstance(own, dict) else None
    if option in files:
        # Many sources name the same few options, and reading a file takes milliseconds.
        if option not in known:
            known[option] = _content(_whole(option, files))
        said = {key: value for key, value in own.items() if key != "name"}  # a file's own counts
        source = source | {"data": _merged(known[option], said)}
    return source | {key: f"${{data.each.{key}}}" for key in shared if key not in source}


def _content(node: Any) -> Any:
    """What `OmegaConf.to_container(node)` gives, sooner; nothing is resolved."""
    from omegaconf import Container

    content = node._content if isinstance(node, Container) else node._value()
    if isinstance(content, dict):
        return {key: _content(child) for key, child in content.items()}
    return [_content(child) for child in content] if isinstance(content, list) else content


def _merged(whole: Any, given: Any) -> Any:
    """What `OmegaConf.merge` gives, of plain values."""
    if isinstance(whole, dict) and isinstance(given, dict):
        return {**whole, **{key: _merged(whole.get(key), value) for key, value in given.items()}}
    return whole if given == "???" and whole is not None else given


def _whole(option: str, files: Mapping[str, Path]) -> Any:
    """What the file of an option says, and those of its group that it builds upon."""
    from omegaconf import OmegaConf

    from .reading import load

    own: Any = load(files[option])
    order = [str(entry) for entry in own.pop("defaults", [])]
    layers = [entry for entry in order if entry == "_self_" or entry in files]
    if "_self_" not in layers:
        layers.append("_self_")
    return OmegaConf.merge(
        *(own if entry == "_self_" else _whole(entry, files) for entry in layers)
    )
