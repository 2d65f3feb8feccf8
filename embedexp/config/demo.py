"""What stands in for a paper's models and data at `scale=demo`, where they cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omegaconf import DictConfig


def chooses_paper(override: str) -> bool:
    """Whether an override chooses a paper's file: `+paper=NAME/STAGE`."""
    key, equals, _ = override.lstrip("+").partition("=")
    return bool(equals) and key.partition("@")[0] == "paper"


def with_substitutes(raw: DictConfig, overrides: Sequence[str]) -> list[str]:
    """The overrides with those of the composed key `demo` before them, at `scale=demo`.

    What is typed counts for more: a group that `overrides` choose an option of keeps it, and
    nothing is substituted below it; `demo=[]` substitutes nothing at all.
    """
    typed = list(overrides)
    scale: Any = raw._get_node("scale", validate_access=False)
    listed: Any = raw._get_node("demo", validate_access=False)
    at_demo = "scale=demo" in typed or (scale is not None and scale.get("name") == "demo")
    if not listed or not at_demo or "demo=[]" in typed:
        return typed
    chosen = {text.lstrip("+~").partition("=")[0].partition("@")[0] for text in typed}
    kept = [str(text) for text in listed if group_of(str(text)) not in chosen]
    papers = [text for text in typed if chooses_paper(text)]
    return [*papers, *kept, *(text for text in typed if not chooses_paper(text))]


def group_of(override: str) -> str:
    """The first part of what an override sets, without Hydra's marks."""
    return override.lstrip("+~").partition("=")[0].partition(".")[0].partition("@")[0]


def restrict(node: Any, alone: Any) -> None:
    """Drop the keys of a composed option that the option by itself does not have, in place.

    They are what a paper's file says of the option that it has chosen itself.
    """
    from omegaconf import open_dict

    if not (_is_section(node) and _is_section(alone) and len(alone)):
        return  # an empty section may hold anything
    known = set(alone.keys())  # `in` denies the keys that the user must give
    with open_dict(node):
        for key in list(node):
            if key not in known:
                del node[key]
            else:
                restrict(node._get_node(key), alone._get_node(key))


def _is_section(node: Any) -> bool:
    from omegaconf import DictConfig

    return isinstance(node, DictConfig) and not node._is_none() and not node._is_interpolation()
