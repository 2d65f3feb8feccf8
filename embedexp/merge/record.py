"""What a merge has done, for `merge.json` and the model's card."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .models import Model


@dataclass(frozen=True)
class Input:
    """A model that was merged: `content` is a hash of its files, `signature` that of its run.

    `weight` is its share of the result, None where an option has no such number. `experts` says
    per layer how its experts were renumbered before the merge: the e-th number is that of the
    expert which is the nearest to expert e of the first model.
    """

    path: str
    signature: str | None
    content: str
    role: str
    weight: float | None = None
    experts: Mapping[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, role: str = "input", weight: float | None = None) -> Input:
        """The entry of a model."""
        return cls(
            path=model.path,
            signature=model.signature,
            content=model.content,
            role=role,
            weight=weight,
            experts=model.weights.orders,
        )


@dataclass(frozen=True)
class Record:
    """How a model was merged: the option, every input, what was decided on the way."""

    option: Mapping[str, Any]
    inputs: list[Input]
    decisions: Sequence[Mapping[str, Any]] = ()
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)
