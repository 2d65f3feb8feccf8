"""One measurement: what is measured, under which prompts, and who is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .prompts import Prompts

if TYPE_CHECKING:
    from collections.abc import Callable

    from embedexp.config.schema.evaluation import Measured

    from .encoder import Embedder
    from .scores import Failure


@dataclass(frozen=True)
class Measurement:
    """An embedder with the option that it is measured under, given in place of an embedder.

    `on_failure` hears of a task that could not be measured, and the others go on; without it a
    failing task ends the evaluation. `on_texts` hears of a task and how many of its texts are about
    to be encoded; what it raises ends the evaluation.
    """

    embedder: Embedder
    option: Measured | None = None
    prompts: Prompts = field(default_factory=Prompts)
    on_failure: Callable[[Failure], None] | None = None
    on_texts: Callable[[str, int], None] | None = None

    def teller(self, task: str) -> Callable[[int], None] | None:
        """`on_texts` of one task."""
        tell = self.on_texts
        return (lambda count: tell(task, count)) if tell is not None else None

    def said(self) -> dict[str, Any]:
        """The prompts that are not the embedding's own, as JSON."""
        prompts, instructions = self.prompts, self.prompts.instructions
        found = {
            "prompts": dict(prompts.table),
            "instructions": instructions.model_dump(mode="json") if instructions else None,
            "saved_prompts": dict(prompts.saved),
        }
        return {key: value for key, value in found.items() if value}
