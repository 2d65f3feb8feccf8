"""The mean over the layers of a model, of what each gives for a token."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from embedexp.backbone.families import family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor
    from transformers import PreTrainedModel


@contextmanager
def watching(model: PreTrainedModel) -> Iterator[Callable[[Tensor], Tensor]]:
    """A context for one forward pass; gives what makes the mean of its last hidden states.

    The mean is over the outputs of all blocks, the last one's after the final norm, which families
    have that normalise before their blocks (Table 5 of MoEE, arXiv 2410.10814, says mean pooled
    and no more). Of the others only the sum is kept.
    """
    family = family_of({"model_type": model.config.model_type})
    blocks: Any = model.get_submodule(family.blocks)
    total: Tensor | float = 0.0

    def add(block: Any, arguments: Any, output: Any) -> None:
        nonlocal total
        total = total + (output[0] if isinstance(output, tuple) else output).float()

    # For this pass alone: hooks that stay would be copied along with the model.
    hooks = [block.register_forward_hook(add) for block in blocks[:-1]]

    def mean_of(last: Tensor) -> Tensor:
        # Blocks see a batch of one, `[1, t, d]`.
        return (total + last.float()).reshape(last.shape) / len(blocks)

    try:
        yield mean_of
    finally:
        for hook in hooks:
            hook.remove()
