"""What every schema shares: strict models, and fields that say their unit and whether they count."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Option(BaseModel):
    """One option of a config group: strict, frozen and without defaults (defaults live in conf/)."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def field(
    description: str, *, unit: str | None = None, identity: bool = True, **limits: Any
) -> Any:
    """A required field with its meaning, unit and limits.

    `identity=False` keeps the key out of the signature: two runs that differ only there are the
    same experiment.
    """
    extra: dict[str, Any] = {"identity": identity}
    if unit is not None:
        extra["unit"] = unit
    return Field(description=description, json_schema_extra=extra, **limits)
