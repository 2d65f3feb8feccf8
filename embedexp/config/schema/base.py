"""What every schema shares: strict models, and fields that say unit and identity."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

COUNTED = object()
"""Says that every value of a key counts."""

WRITTEN_BEFORE = "written before"
"""The context in which keys may be missing that came after a file was written."""


class Option(BaseModel):
    """One option of a config group: strict, frozen and without defaults (defaults live in conf/).

    Strict means that `true` is no number and `"3"` no integer. Only the whole experiment builds its
    validator at once; the options, which it contains, build theirs when they are used alone.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        defer_build=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _older(cls, content: Any, info: ValidationInfo) -> Any:
        """What a file lacks since its keys came later, with what these ask nothing at."""
        if info.context != WRITTEN_BEFORE or not isinstance(content, dict):
            return content
        extras = {name: found.json_schema_extra for name, found in cls.model_fields.items()}
        later = {
            name: extra["without"]
            for name, extra in extras.items()
            if isinstance(extra, dict) and "without" in extra
        }
        return later | content


def field(
    description: str,
    *,
    unit: str | None = None,
    identity: bool = True,
    without: Any = COUNTED,
    **limits: Any,
) -> Any:
    """A required field with its meaning, unit and limits.

    `identity=False` keeps the key out of the signature: two runs that differ only there are the
    same experiment. `without` is the value at which the key asks for nothing; at it, the key stays
    out of the signature, so that a key that comes later leaves the older signatures alone.
    """
    extra: dict[str, Any] = {"identity": identity}
    if without is not COUNTED:
        extra["without"] = without
    if unit is not None:
        extra["unit"] = unit
    return Field(description=description, json_schema_extra=extra, **limits)
