"""merge=uniform: the equal average (Llama-Embed-Nemotron-8B merges six runs this way)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError
from embedexp.embedding import Embedder, load

from .average import average

if TYPE_CHECKING:
    from embedexp.config.schema.merge import Uniform


_COMPARED = {"backbone": {"architecture", "dtype"}}
"""Where weights came from and how they were trained may differ; what they are may not."""


def merge(option: Uniform) -> Embedder:
    """The equal average of the models in `option.inputs`; pooling and prompts are the first one's.

    Raises:
        UserError: the models differ in anything but their weights; the first difference is named.
    """
    embedders = [load(Path(path)) for path in option.inputs]
    first = embedders[0]
    for path, other in zip(option.inputs[1:], embedders[1:], strict=True):
        difference = _difference(first, other)
        if difference:
            raise UserError(
                f"can't average: {difference}",
                where=f"merge.inputs: {option.inputs[0]} and {path}",
                hint="merge runs of one backbone, routing and embedding",
            )
    first.load_state_dict(average([embedder.state_dict() for embedder in embedders]))
    return first


def _difference(a: Embedder, b: Embedder) -> str | None:
    """The first thing beside weights in which two embedders differ."""
    for group in ("backbone", "routing", "mask_schedule", "embedding"):
        kept = _COMPARED.get(group)
        left, right = (getattr(e.config, group).model_dump(include=kept) for e in (a, b))
        for key in sorted(left.keys() | right.keys()):
            if left.get(key) != right.get(key):
                return f"{group}.{key} is {left.get(key)!r} here and {right.get(key)!r} there"
    if a.text_tokenizer.get_vocab() != b.text_tokenizer.get_vocab():
        return "their tokenizers have different vocabularies"
    return None
