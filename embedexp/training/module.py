"""The Lightning module: an objective's step, then the weights move."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

import lightning as L
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from embedexp import routing
from embedexp.routing.load import RouterLoad

from . import optimizer, strategy
from .averaging import average_of
from .dynamic import Deferred
from .finite import NonFiniteLossError, require_finite
from .objective import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from embedexp.config import Config
    from embedexp.routing import RouterTotals

    from .dynamic import DynamicTraining
    from .objective import Batch, Objective

log = logging.getLogger(__name__)

__all__ = ["EmbeddingModule", "NonFiniteLossError"]


class EmbeddingModule(L.LightningModule):
    """Trains what an objective holds, one optimizer step per batch.

    `embedder` is the part of `objective` whose routers are balanced and whose blocks are sharded.
    With `dynamic` negatives, batches are made by `make(step)` when their step begins.
    """

    def __init__(
        self,
        config: Config,
        objective: Objective,
        embedder: nn.Module,
        progress: Callable[[int, int], float],
        dynamic: DynamicTraining | None = None,
    ) -> None:
        super().__init__()
        self.dynamic = dynamic
        self.make: Callable[[int], Batch] | None = None  # for deferred batches
        self.negatives: dict[str, float] | None = None
        self._warned = self._sharded = False
        self.automatic_optimization = False  # a step may have several backward passes
        self.config, self.progress = config, progress
        self.objective = objective
        self._embedder = (embedder,)  # in a tuple, so that it is registered once
        self.latest: dict[str, Tensor] = {}
        self.learning_rate = 0.0  # of the latest step; the optimizer already holds the next one's
        self.router: RouterTotals | None = None
        self.router_load = RouterLoad()
        self.average = average_of(config)

    def configure_model(self) -> None:
        """Shard the weights, if the strategy shards; called once the ranks have met."""
        if self.device_mesh is not None and not self._sharded:
            hybrid = getattr(self.config.compute, "sharding", "full") == "hybrid"
            mesh = strategy.mesh_of(self.device_mesh, self.trainer.num_nodes if hybrid else 1)
            strategy.shard(cast("nn.Module", self.objective), self._embedder[0], mesh)
            self._sharded = True

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Make a batch that depends on the steps before it, now that they are done."""
        return self.make(batch.step) if self.make and isinstance(batch, Deferred) else batch

    def training_step(self, batch: Batch, batch_idx: int) -> None:
        """One optimizer step: gradients, clipping, the weights, the schedule.

        Raises:
            NonFiniteLossError: the loss or the gradient norm is NaN or infinite.
        """
        optimizer, schedule = self.optimizers(), self.lr_schedulers()
        assert not isinstance(optimizer, list)
        optimizer.zero_grad()
        alpha = self.progress(self.global_step, self.config.training.steps)
        model = self.trainer.strategy.model
        assert model is not None
        step = Step(
            self.global_step,
            alpha,
            self.config.seed,
            self.global_rank,
            self.trainer.world_size,
            model,
        )
        output = self.objective.step(batch, step)
        self.router, self.negatives = output.router, output.negatives
        self.learning_rate = float(optimizer.param_groups[0]["lr"])
        norm = self._clip()
        require_finite(norm, "gradient norm", step.number)
        if not norm:
            self._warn_of_nothing(step.number)
        self.latest = {"loss": output.loss, **output.terms, "gradient_norm": norm}
        self.router_load.count(output.router)
        if (load := self.router_load.end_step()) is not None:
            routing.rebalance(self.config.routing, self._embedder[0], list(load))
        optimizer.step()
        schedule.step()  # type: ignore[union-attr]

    def _warn_of_nothing(self, step: int) -> None:
        """Say once that a step taught nothing: it happens without an error, and looks perfect."""
        if not self._warned:
            log.warning(
                "step %d taught nothing: its gradient is zero; are all its texts or labels the "
                "same, so that nothing is a negative of anything?",
                step + 1,
            )
        self._warned = True

    def _clip(self) -> Tensor:
        """Clip the global gradient norm, and return what it was.

        Done here since Lightning refuses it with fused optimizers.
        """
        limit = self.config.optimizer.max_grad_norm
        norm = nn.utils.clip_grad_norm_(self.parameters(), limit or float("inf")).detach()
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the routers' load and the state of negatives, so that a resumed run goes on."""
        checkpoint["router_load"] = self.router_load.total
        if self.dynamic is not None:
            checkpoint["negatives"] = self.dynamic.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from there."""
        self.router_load.total = checkpoint.get("router_load")
        if self.dynamic is not None:
            self.dynamic.load_state_dict(checkpoint["negatives"])

    def configure_optimizers(self) -> Any:
        """AdamW and its per-step schedule."""
        built, schedule = optimizer.build(self.config.optimizer, self, self.config.training.steps)
        return {
            "optimizer": built,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }
