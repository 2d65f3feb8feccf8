"""What routers did in a step, in few numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .totals import RouterTotals

if TYPE_CHECKING:
    from .output import RouterOutput


def router_statistics(router: RouterOutput | RouterTotals) -> dict[str, float]:
    """Figures of one step, each a mean over the routed layers.

    `max_load` and `min_load` are shares of the layer's assignments (1/E at balance), `entropy` is
    that of a token's probabilities over experts in nats (log E for an undecided router), and
    `dead` the share of experts that got no token at all.
    """
    totals = router if isinstance(router, RouterTotals) else RouterTotals.of(router)
    shares = totals.loads / totals.loads.sum(-1, keepdim=True)
    values = torch.stack(
        [
            shares.amax(-1).mean(),
            shares.amin(-1).mean(),
            (totals.entropy / totals.rows).mean().to(shares.dtype),
            (shares == 0).to(shares.dtype).mean(),
        ]
    ).tolist()  # one copy from the device instead of four
    return dict(zip(("max_load", "min_load", "entropy", "dead"), values, strict=True))
