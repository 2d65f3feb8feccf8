"""Interpolations that cannot be resolved: which key, which expression, which file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from .errors import UserError, closest, shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from omegaconf.errors import InterpolationResolutionError


def unresolved(
    exc: InterpolationResolutionError, key: str, origin: Callable[[str], str | None]
) -> UserError:
    """The error for the key whose expression is at fault, found by following interpolations."""
    root = exc.parent_node._get_root() if exc.parent_node is not None else None
    written = _written(root, key)
    followed = {key}
    while (target := _plain_target(written)) and target not in followed:
        behind = _written(root, target)
        if not (isinstance(behind, str) and "${" in behind):
            break
        followed.add(target)
        key, written = target, behind
    what = f"{key}={shorten(written, 60)} cannot be resolved"
    return UserError(what, where=origin(key), hint=_hint(exc, key, written, root))


def _hint(exc: InterpolationResolutionError, key: str, written: Any, root: Any) -> str:
    from omegaconf import OmegaConf
    from omegaconf.basecontainer import BaseContainer
    from omegaconf.errors import UnsupportedInterpolationType

    from .flat import flatten

    said = str(exc.msg or exc).splitlines()[0].strip()
    expression = str(written)
    if isinstance(exc, UnsupportedInterpolationType):
        resolver = expression.partition("${")[2].partition(":")[0].strip()
        near = closest(resolver, BaseContainer._resolvers)
        offer = f"; did you mean {' or '.join(near)}?" if near else ""
        return f"there is no resolver {resolver}{offer}"
    target = _plain_target(expression)
    if target == key:
        return "it refers to itself"
    if target and root is not None:
        plain = OmegaConf.to_container(root, resolve=False)
        keys = flatten(cast("dict[str, Any]", plain))
        near = [name for name in closest(target, keys) if not name.startswith("hydra.")]
        offer = f"; did you mean ${{{' or '.join(near)}}}?" if near else ""
        return f"there is no key {shorten(target, 60)}{offer}"
    return shorten(
        re.sub(r"^\w+ raised while resolving interpolation: ", "", said).strip("'\""), 160
    )


def _plain_target(written: Any) -> str | None:
    """`a.b` of the text `${a.b}`; None for resolvers and anything longer."""
    if not isinstance(written, str) or not (written.startswith("${") and written.endswith("}")):
        return None
    inner = written[2:-1].strip()
    return inner if inner and not set(inner) & set(":${}") and not inner.startswith(".") else None


def _written(root: Any, dotted: str) -> Any:
    """The value of a key as it is written, not resolved."""
    from omegaconf import DictConfig

    node = root
    for part in dotted.split("."):
        if not isinstance(node, DictConfig) or node._is_interpolation():
            return None
        node = node._get_node(part)
        if node is None:
            return None
    return node._value()
