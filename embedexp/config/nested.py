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
    from omegaconf import DictConfig, OmegaConf, open_dict

    data: Any = raw._get_node("data")
    if not isinstance(data, DictConfig) or data._get_node("sources", validate_access=False) is None:
        return
    sources: Any = data._get_node("sources")
    if not isinstance(sources, DictConfig) or sources._is_none() or sources._is_interpolation():
        return
    files = option_files("data", folders)
    with open_dict(data):
        for name in sources:
            source: Any = sources._get_node(name)
            if not isinstance(source, DictConfig) or source._is_none():
                continue
            own = source._get_node("data")
            given: Any = OmegaConf.to_container(own) if isinstance(own, DictConfig) else None
            option = given.get("name") if given else None
            if option in files:
                said = {key: value for key, value in given.items() if key != "name"}
                source["data"] = OmegaConf.merge(_whole(option, files), said)
            for key in data.get("each") or ():
                if source._get_node(key) is None:
                    source[key] = f"${{data.each.{key}}}"


def _whole(option: str, files: Mapping[str, Path]) -> Any:
    """What the file of an option says, and those of its group that it builds upon."""
    from omegaconf import OmegaConf

    own: Any = OmegaConf.load(files[option])
    order = [str(entry) for entry in own.pop("defaults", [])]
    layers = [entry for entry in order if entry == "_self_" or entry in files]
    if "_self_" not in layers:
        layers.append("_self_")
    return OmegaConf.merge(
        *(own if entry == "_self_" else _whole(entry, files) for entry in layers)
    )
