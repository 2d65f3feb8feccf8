"""Prompts: text files with `$names` in the place of what differs from request to request."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from .errors import UserError, nearest
from .locations import PACKAGE

if TYPE_CHECKING:
    from collections.abc import Collection

FOLDER = PACKAGE / "generation" / "prompts"


def shipped() -> list[str]:
    """The names of the prompts for generators that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.txt"))


def read(name: str, key: str) -> str:
    """The text of a shipped prompt, or of a file; `key` is the config key that names it.

    Raises:
        UserError: there is neither.
    """
    path = FOLDER / f"{name}.txt" if name in shipped() else Path(name).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        near = nearest(name, shipped())
        raise UserError(
            f"{key}={name} is neither a shipped prompt nor a readable text file",
            hint=f"did you mean {near}?" if near else f"shipped: {', '.join(shipped())}",
        ) from None


def template(name: str, key: str, known: Collection[str]) -> Template:
    """A prompt that asks for nothing but `known` names. `$$` is a dollar sign.

    Raises:
        UserError: it asks for another name, or has a dollar sign that is none.
    """
    found = Template(read(name, key))
    if not found.is_valid():
        raise UserError(f"{key}={name} has a $ without a name", hint="write $$ for a dollar sign")
    for asked in found.get_identifiers():
        if asked not in known:
            near = nearest(asked, list(known))
            raise UserError(
                f"{key}={name} asks for ${asked}, which is not known here",
                hint=f"did you mean ${near}?" if near else f"known: {', '.join(sorted(known))}",
            )
    return found


def of_stage(stage: object) -> dict[str, str]:
    """The prompts of a stage that asks generators: config key -> shipped name or file."""
    name = getattr(stage, "name", None)
    if name == "generate":
        kind = getattr(stage, "kind", "")
        return {
            f"stage.{key}_prompt": getattr(stage, f"{key}_prompt") or f"{key}_{kind}"
            for key in ("propose", "example")
        }
    if name in ("generate_queries", "translate"):
        return {"stage.prompt": getattr(stage, "prompt", "")}
    return {}
