"""What routers did in a step, in few numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .output import RouterOutput


@torch.no_grad()
def router_statistics(router: RouterOutput) -> dict[str, float]:
    """Figures of one step, each a mean over the routed layers.

    `max_load` and `min_load` are shares of the layer's assignments (1/E at balance), `entropy` is
    that of a token's probabilities over experts in nats (log E for an undecided router), and
    `dead` the share of experts that got no token at all.
    """
    shares = torch.stack([load / load.sum() for load in router.loads])
    entropy = torch.stack(
        [torch.special.entr(p.detach()).sum(-1).mean() for p in router.probabilities]
    )
    values = torch.stack(
        [
            shares.amax(-1).mean(),
            shares.amin(-1).mean(),
            entropy.mean().to(shares.dtype),
            (shares == 0).to(shares.dtype).mean(),
        ]
    ).tolist()  # one copy from the device instead of four
    return dict(zip(("max_load", "min_load", "entropy", "dead"), values, strict=True))
