"""What stands around a text of an mteb task: whose prompt comes first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mteb.models.abs_encoder import get_prompt
from mteb.types import PromptType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mteb import TaskMetadata

    from embedexp.config.schema.evaluation import Instructions

SIDES = (None, PromptType.query, PromptType.document)
"""What mteb asks a text to be: a query, a document, or, outside retrieval, neither."""


@dataclass(frozen=True)
class Prompts:
    """Prompts by mteb's keys, over those that the embedding has for its own instruction tasks.

    The first of these that has one decides: `table`, the sentences of `instructions`, `saved` (in
    the files of a model made elsewhere). Within a table mteb's own order holds: NAME-query, NAME,
    TYPE-query, TYPE, query. A prompt is a prefix, or a template with {text}; the empty one is a
    prompt too, and asks for the bare text.
    """

    table: Mapping[str, str] = field(default_factory=dict)
    instructions: Instructions | None = None
    saved: Mapping[str, str] = field(default_factory=dict)

    def of(self, task: TaskMetadata, side: PromptType | None) -> str | None:
        """The prompt of one side of a task; None leaves it to the embedding."""
        found: str | None = get_prompt(dict(self.table), task, side)
        if found is None and self.instructions is not None:
            words = sentence(self.instructions, task, side)
            found = self.instructions.template.replace("{instruction}", words) if words else ""
        if found is None:
            found = get_prompt(dict(self.saved), task, side)
        return found

    def within(self, task: str, parts: Sequence[str]) -> Prompts:
        """The prompts for the parts of a task that is made of others.

        What the option says under the task's name holds for each part without a name of its own:
        mteb asks for the prompts of parts alone. A model's saved prompts stay as mteb reads them.
        """
        instructions = self.instructions
        if instructions is not None:
            overrides = _inherited(instructions.overrides, task, parts)
            instructions = instructions.model_copy(update={"overrides": overrides})
        return replace(self, table=_inherited(self.table, task, parts), instructions=instructions)

    def all_of(self, task: TaskMetadata) -> list[str | None]:
        """The prompts of a task's sides: part of what its score depends on."""
        return [self.of(task, side) for side in SIDES]


def _inherited(table: Mapping[str, str], task: str, parts: Sequence[str]) -> dict[str, str]:
    endings = ("", *(f"-{side.value}" for side in SIDES if side is not None))
    own = {ending: table[task + ending] for ending in endings if task + ending in table}
    return {
        **table,
        **{
            part + ending: prompt
            for part in parts
            if not any(part + each in table for each in endings)
            for ending, prompt in own.items()
        },
    }


def sentence(option: Instructions, task: TaskMetadata, side: PromptType | None) -> str:
    """The sentence that tells a model what a task is; empty where there is none.

    Documents of retrieval and reranking have none unless `documents` asks for it, or the model's
    own table names a sentence for each side of the task.
    """
    found: str | None = get_prompt(dict(option.overrides), task, side)
    if found is not None:
        return found
    own = model_sentences(option.source).get(task.name)
    if isinstance(own, dict):  # a task whose two sides are alike
        return str(own.get(side.value, "")) if side is not None else ""
    if side is PromptType.document and not option.documents and ranks(task):
        return ""
    return own if own is not None else task_sentence(task, side)


def model_sentences(source: str) -> Mapping[str, Any]:
    """The sentences that a model's authors gave to single tasks, as mteb has them."""
    if source != "llama_embed_nemotron":
        return {}
    from mteb.models.model_implementations.nvidia_models import TASK_PROMPTS

    found: Mapping[str, Any] = TASK_PROMPTS
    return found


def ranks(task: TaskMetadata) -> bool:
    """Whether a task's documents are searched or ranked."""
    return "Retrieval" in task.type or "Reranking" in task.type


def task_sentence(task: TaskMetadata, side: PromptType | None) -> str:
    """The sentence of mteb's task itself, or of its type where the task has none."""
    from mteb.abstasks.abstask import get_abstask_prompt

    words = task.prompt
    if isinstance(words, dict):
        words = words.get(side.value) if side is not None else None
        return str(words or "")
    return str(words or get_abstask_prompt(task.name) or "")
