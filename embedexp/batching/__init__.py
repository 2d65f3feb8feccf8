"""Which examples meet in a batch, and the packed batches of tokens that they become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embedexp.config.options import implementation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .plan import BatchPlan, Source

__all__ = ["build"]


def build(option: Any, sources: Sequence[Source], seed: int) -> BatchPlan:
    """The batch plan of a `batching` option over `sources`."""
    from .sampling import weighted
    from .windows import arrangement

    drawn = weighted(sources, option.sampling)
    module = implementation("batching", option.name)
    built: BatchPlan = module.build(option, drawn, seed, arrangement(option))
    return built
