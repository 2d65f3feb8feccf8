"""What, beside the weights, makes a model's vectors what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

GROUPS = ("embedding", "routing", "mask_schedule")
"""Config groups that act when a text is encoded; of the backbone, its architecture does."""


def settings(embedder: object) -> dict[str, Any]:
    """Prompts, lengths, pooling, routing, mask, architecture and type of the weights, as JSON."""
    config = getattr(embedder, "config", None)
    found: dict[str, Any] = {}
    if config is not None:
        found |= {group: getattr(config, group).model_dump(mode="json") for group in GROUPS}
        found["architecture"] = dict(config.backbone.architecture)
    parameters = getattr(embedder, "parameters", None)
    if parameters is not None:
        found["dtype"] = sorted({str(p.dtype).removeprefix("torch.") for p in parameters()})
    return found


def treatment(embedder: object) -> Callable[[str], Hashable]:
    """What an instruction task does to a text: where it is equal, so are a text's vectors."""
    from embedexp.embedding import Embedder
    from embedexp.embedding.encoding import default_role, max_tokens

    def of(task: str) -> Hashable:
        if not isinstance(embedder, Embedder):
            return task
        prompt: str = getattr(embedder.config.embedding.prompts, task)
        return prompt, max_tokens(embedder, default_role(task)), embedder.expert_of([task])

    return of
