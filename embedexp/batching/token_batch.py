"""The packed batch of token sequences that every model here takes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TokenBatch:
    """n sequences, packed one after the other into t tokens, without padding.

    `input_ids [t]` int64; `cu_seqlens [n+1]` int64, so that sequence i is
    `input_ids[cu_seqlens[i]:cu_seqlens[i+1]]`; `task_ids [n]` int64, indices into
    `config.tasks.INSTRUCTIONS`; `roles [n]` int64 (query 0, positive 1, hard negative k 2+k).
    """

    input_ids: Tensor
    cu_seqlens: Tensor
    task_ids: Tensor
    roles: Tensor

    def __len__(self) -> int:
        return self.cu_seqlens.numel() - 1

    @property
    def lengths(self) -> Tensor:
        """Tokens per sequence, `[n]`."""
        return self.cu_seqlens.diff()

    @property
    def position_ids(self) -> Tensor:
        """Position of each token in its own sequence, `[t]`, from 0."""
        count = self.input_ids.numel()
        # Told how many there are, torch need not ask a GPU and wait for it.
        starts = torch.repeat_interleave(self.cu_seqlens[:-1], self.lengths, output_size=count)
        return torch.arange(count, device=self.input_ids.device) - starts

    @property
    def sequence_ids(self) -> Tensor:
        """Which sequence each token belongs to, `[t]`."""
        return torch.repeat_interleave(
            torch.arange(len(self), device=self.cu_seqlens.device),
            self.lengths,
            output_size=self.input_ids.numel(),
        )

    def select(self, index: Tensor) -> TokenBatch:
        """The sequences `index [m]`, in that order."""
        lengths = self.lengths[index]
        cu_seqlens = torch.zeros(index.numel() + 1, dtype=torch.int64, device=index.device)
        torch.cumsum(lengths, 0, out=cu_seqlens[1:])
        count = int(cu_seqlens[-1])
        shifts = self.cu_seqlens[index] - cu_seqlens[:-1]
        starts = torch.repeat_interleave(shifts, lengths, output_size=count)
        tokens = torch.arange(count, device=index.device) + starts
        return TokenBatch(
            self.input_ids[tokens], cu_seqlens, self.task_ids[index], self.roles[index]
        )

    def padded(self, pad_token_id: int = 0) -> tuple[Tensor, Tensor]:
        """Right-padded `(input_ids [n, l], attention_mask [n, l])`, for models that need it."""
        lengths = self.lengths
        longest = int(lengths.max()) if len(self) else 0
        positions = torch.arange(longest, device=lengths.device)
        mask = positions[None, :] < lengths[:, None]
        padded = torch.full_like(mask, pad_token_id, dtype=self.input_ids.dtype)
        padded[mask] = self.input_ids
        return padded, mask.to(torch.int64)

    def to(self, device: torch.device | str) -> TokenBatch:
        """The same batch on another device."""
        return TokenBatch(
            self.input_ids.to(device),
            self.cu_seqlens.to(device),
            self.task_ids.to(device),
            self.roles.to(device),
        )

    @staticmethod
    def pack(sequences: list[list[int]], task_ids: list[int], roles: list[int]) -> TokenBatch:
        """Pack lists of token ids."""
        lengths = torch.tensor([0, *map(len, sequences)], dtype=torch.int64)
        flat = [token for sequence in sequences for token in sequence]
        return TokenBatch(
            torch.tensor(flat, dtype=torch.int64),
            lengths.cumsum(0),
            torch.tensor(task_ids, dtype=torch.int64),
            torch.tensor(roles, dtype=torch.int64),
        )
