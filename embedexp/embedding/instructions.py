"""Which tokens of a packed batch belong to instructions, so that pooling can leave them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from embedexp.config.tasks import INSTRUCTIONS
from embedexp.data.prompted import frame

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from embedexp.batching.token_batch import TokenBatch
    from embedexp.config.schema.embedding import Prompts

NEVER = -1
"""No token has this id."""


class Instructions:
    """The tokens that the prompts put around texts, by instruction task.

    Left out are the special tokens in front, the prompt before the text, and what a template puts
    after it; kept are the text and the special tokens at the end, as sentence-transformers does
    with `include_prompt=False`. Unlike there, a token in which prompt and text merge is kept, and
    a prompt that is empty leaves nothing out.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, prompts: Prompts) -> None:
        before, after = [], []
        closing = len(frame(tokenizer, "").after)
        for task in INSTRUCTIONS:
            prompt = getattr(prompts, task)
            around = frame(tokenizer, prompt) if prompt else None
            before.append(around.before if around else [])
            # From the last token to the first.
            after.append(around.after[::-1] if around and len(around.after) > closing else [])
        self.before, self.after, self.closing = table(before), table(after), closing

    def text(self, batch: TokenBatch) -> Tensor:
        """Whether each token is pooled, `[t]`; all of a sequence that has nothing but a prompt."""
        lengths, starts = batch.lengths, batch.cu_seqlens[:-1]
        of_task = (self.before.to(starts.device), self.after.to(starts.device))
        head = agreeing(batch.input_ids, starts, 1, lengths, of_task[0][batch.task_ids])
        tail = agreeing(
            batch.input_ids, starts + lengths - 1, -1, lengths, of_task[1][batch.task_ids]
        )
        sequences, places = batch.sequence_ids, batch.position_ids
        from_end = lengths[sequences] - 1 - places
        kept = places >= head[sequences]
        kept &= (from_end >= tail[sequences]) | (from_end < self.closing)
        some = torch.zeros(len(batch), dtype=torch.bool, device=kept.device)
        some[sequences[kept]] = True
        return kept | ~some[sequences]


def table(rows: list[list[int]]) -> Tensor:
    """The rows as one tensor, filled up with NEVER, and one column more."""
    width = max(map(len, rows)) + 1
    return torch.tensor([[*row, *[NEVER] * (width - len(row))] for row in rows])


def agreeing(ids: Tensor, first: Tensor, step: int, lengths: Tensor, expected: Tensor) -> Tensor:
    """How many tokens of each sequence, from its `first [n]` on, are the `expected [n, p]`."""
    offsets = torch.arange(expected.shape[1], device=ids.device)
    inside = offsets < lengths[:, None]
    found = ids[torch.where(inside, first[:, None] + step * offsets, first[:, None])]
    return ((found == expected) & inside).long().cumprod(1).sum(1)
