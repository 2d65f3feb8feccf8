"""From a batch's hidden states to one vector per sequence, as an embedding option says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from embedexp.config.errors import UserError
from embedexp.config.options import implementation

from . import moee, routers
from .instructions import Instructions

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from embedexp.batching.token_batch import TokenBatch
    from embedexp.config.schema.embedding import Embedding, MoEE
    from embedexp.routing import RouterOutput


class TokenPooling:
    """Pooling of hidden states alone, of all tokens or without the instruction's."""

    def __init__(self, name: str, width: int, instructions: Instructions | None) -> None:
        self.width, self.instructions = width, instructions
        self.pool = implementation("embedding", name).pool

    def __call__(self, hidden: Tensor, batch: TokenBatch, router: RouterOutput | None) -> Tensor:
        """From float32 hidden states `[t, d]` to vectors `[n, d]`."""
        cu_seqlens = batch.cu_seqlens
        if self.instructions is not None:
            kept = self.instructions.text(batch)
            lengths = torch.zeros_like(batch.lengths)
            lengths.index_add_(0, batch.sequence_ids, kept.long())
            cu_seqlens = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
            hidden = hidden[kept]
        vectors: Tensor = self.pool(hidden, cu_seqlens)
        return vectors


class ExpertPooling:
    """Hidden states together with routing weights (`embedding=moee`)."""

    def __init__(self, option: MoEE, model: PreTrainedModel) -> None:
        hidden, experts = int(model.config.hidden_size), routers.expert_counts(model)
        self.option = option
        if option.source == "hidden_state":
            experts = []
        elif not experts:
            raise UserError(
                f"embedding.source={option.source}, but the model routes no tokens to experts",
                where="embedding=moee",
                hint="use routing=moe, a backbone with experts, or embedding=last_token",
            )
        self.width = sum(experts) + (hidden if option.source != "routing_weights" else 0)
        if option.width is not None and option.width > self.width:
            raise UserError(
                f"embedding.width={option.width} is more than the {self.width} dimensions there "
                f"are with source={option.source}",
                hint=f"at most {self.width}, or null for all",
            )
        routers.watch(model)

    def __call__(self, hidden: Tensor, batch: TokenBatch, router: RouterOutput | None) -> Tensor:
        """From float32 hidden states `[t, d]` and the routers' records to vectors `[n, width]`."""
        return moee.combine(self.option, hidden, batch.cu_seqlens, router)


def build(
    option: Embedding, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None
) -> TokenPooling | ExpertPooling:
    """The pooling of an option; without a tokenizer (meta device) instructions are unknown.

    Raises:
        UserError: routing weights are asked of a model that has none, or too many dimensions.
    """
    if option.name == "moee":
        return ExpertPooling(option, model)
    instructions = None
    if getattr(option, "exclude_instruction", False) and tokenizer is not None:
        instructions = Instructions(tokenizer, option.prompts)
    return TokenPooling(option.name, int(model.config.hidden_size), instructions)
