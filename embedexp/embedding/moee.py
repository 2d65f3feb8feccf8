"""MoEE: the hidden state of a mixture of experts, and the paths its tokens took (arXiv 2410.10814).

No training is needed: what routers prefer says something about a text that the hidden state does
not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import normalize

from . import last_token, mean

if TYPE_CHECKING:
    from embedexp.config.schema.embedding import MoEE
    from embedexp.routing import RouterOutput

EPSILON = 1e-8
"""Added to standard deviations, as the official code does."""


def cleaned(text: str) -> str:
    """A text as the official code has it before its prompt: ended, and without `"` and `_`."""
    if text and text[-1] not in ".?!\"'":
        text += "."
    return text.replace('"', "'").replace("_", " ").strip()


def combine(
    option: MoEE, hidden: Tensor, cu_seqlens: Tensor, router: RouterOutput | None
) -> Tensor:
    """From float32 hidden states `[t, d]` and the routers' records to `[n, width]`.

    The hidden state is the last token's. The routing weights are those of all experts of all
    layers, layer by layer, `[n, sum of E]`. Both are standardised as the option says, then

    - `concat` puts sqrt(alpha) times the routing weights behind the hidden state;
    - `sum` does so with both at length 1. Dot products of its vectors are cos(hidden states) +
      alpha cos(routing weights), the paper's sum of similarities, and cosines are that divided by
      1 + alpha.
    """
    parts = []
    if option.source != "routing_weights":
        parts.append(last_token.pool(hidden, cu_seqlens))
    if option.source != "hidden_state":
        parts.append(routing_weights(option, cu_seqlens, router))
    parts = [standardize(part, option.standardize) for part in parts]
    if option.source == "sum":
        parts = [normalize(part, dim=-1) for part in parts]
    if len(parts) == 2:
        parts[1] = option.alpha**0.5 * parts[1]
    return torch.cat(parts, dim=-1)


def routing_weights(option: MoEE, cu_seqlens: Tensor, router: RouterOutput | None) -> Tensor:
    """Logits or probabilities over all experts of all layers, of each text, `[n, sum of E]`."""
    if router is None:
        raise RuntimeError("no router reported in this forward pass")
    layers = router.logits if option.router == "logits" else router.probabilities
    pool = last_token.pool if option.router_pooling == "last_token" else mean.pool
    return torch.cat([pool(layer.float(), cu_seqlens) for layer in layers], dim=-1)


def standardize(part: Tensor, over: str) -> Tensor:
    """Rows `[n, d]` with zero mean and unit variance: each by itself, or each column over a batch.

    (x - mean) / (s + 1e-8), s the unbiased standard deviation. In a batch of one nothing deviates
    from the mean, so that all is 0.
    """
    if over == "none":
        return part
    dimension = -1 if over == "vector" else 0
    deviation = part - part.mean(dimension, keepdim=True)
    if part.shape[dimension] == 1:
        return deviation
    # Clamped, so that equal numbers have a gradient of zero instead of none.
    spread = part.var(dimension, keepdim=True).clamp_min(1e-30).sqrt()
    return deviation / (spread + EPSILON)
