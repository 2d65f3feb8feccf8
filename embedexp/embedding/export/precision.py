"""Weights in another type."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from embedexp.config.errors import UserError

if TYPE_CHECKING:
    from embedexp.embedding import Embedder


@torch.no_grad()
def cast(embedder: Embedder, dtype: str) -> None:
    """Put an embedder's weights into another type, in place.

    Raises:
        UserError: a weight is too large for it.
    """
    target: torch.dtype = getattr(torch, dtype)
    most = torch.finfo(target).max
    for name, value in embedder.state_dict().items():
        if value.is_floating_point() and value.abs().max().item() > most:
            raise UserError(
                f"{name} has values beyond the range of {dtype}", hint="use --dtype bfloat16"
            )
    embedder.to(target)
