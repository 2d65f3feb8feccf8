"""What an embedder returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from embedexp.routing import RouterOutput


@dataclass(frozen=True)
class Embeddings:
    """`vectors [n, d]` float32, in the order of the batch, and what routers reported, if any."""

    vectors: Tensor
    router: RouterOutput | None = None
