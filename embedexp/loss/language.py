"""Cross-entropy over a vocabulary, without all of its scores at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from .precision import at_least_float32

if TYPE_CHECKING:
    from collections.abc import Iterator

IGNORED = -100
"""The label of a token of which nothing is predicted."""

ELEMENTS = 2**24
"""Scores that are held at a time: 64 MiB in float32."""


class TokenLoss(NamedTuple):
    """Sums over tokens: of their losses in nats, and of the tokens that were guessed (int64)."""

    total: Tensor
    correct: Tensor


def token_cross_entropy(
    features: Tensor,
    matrix: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    *,
    elements: int = ELEMENTS,
) -> TokenLoss:
    """The sum over tokens i of -log softmax(features_i @ matrix.T + bias)[targets_i].

    `features [m, d]`, `matrix [v, d]`, `bias [v]` or None, `targets [m]` int64, all of them within
    the vocabulary. Scores are in float32 at least, and at most `elements` of them (or one token's)
    exist at a time: gradients are taken along with the values, so that memory beyond the inputs and
    their gradients does not grow with the number of tokens.
    """
    with torch.autocast(features.device.type, enabled=False):
        total, correct = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            features, matrix, bias, targets, elements
        )
    return TokenLoss(total, correct)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Value and gradients in one pass over chunks of tokens; the backward pass only scales."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        matrix: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        elements: int,
    ) -> tuple[Tensor, Tensor]:
        wide = at_least_float32(matrix)
        wanted = ctx.needs_input_grad[:3]
        total = wide.new_zeros(())
        correct = targets.new_zeros(())
        by_features = torch.empty_like(features) if wanted[0] else None
        by_matrix = torch.zeros_like(wide) if wanted[1] else None
        by_bias = wide.new_zeros(len(wide)) if wanted[2] else None
        for rows in _chunks(len(features), max(1, elements // len(wide))):
            here, answers = features[rows].to(wide.dtype), targets[rows]
            scores = here @ wide.T
            if bias is not None:
                scores += bias.to(wide.dtype)
            correct += (scores.argmax(-1) == answers).sum()
            logs = scores.log_softmax(-1)
            del scores
            total -= logs.gather(1, answers[:, None]).sum()
            if not any(wanted):
                continue
            change = logs.exp_()
            change[torch.arange(len(answers), device=answers.device), answers] -= 1
            if by_features is not None:
                by_features[rows] = (change @ wide).to(by_features.dtype)
            if by_matrix is not None:
                by_matrix.addmm_(change.T, here)
            if by_bias is not None:
                by_bias += change.sum(0)
        ctx.save_for_backward(
            by_features,
            None if by_matrix is None else by_matrix.to(matrix.dtype),
            None if by_bias is None or bias is None else by_bias.to(bias.dtype),
        )
        ctx.mark_non_differentiable(correct)
        return total, correct

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (
            None if saved is None else saved * gradients[0].to(saved.dtype)
            for saved in ctx.saved_tensors
        )
        return (*scaled, None, None)


def _chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))
