"""The Lightning module: embed a batch, take its loss, move the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lightning as L
import torch
from torch import Tensor, nn

from embedexp import routing
from embedexp.batching.permutation import key_of
from embedexp.routing.load import RouterLoad

from . import optimizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from embedexp.batching.collate import TrainingBatch
    from embedexp.config import Config
    from embedexp.routing.output import RouterOutput


class NonFiniteLossError(RuntimeError):
    """The loss or its gradient became NaN or infinite: going on would only spread it."""


class EmbeddingModule(L.LightningModule):
    """Trains an embedder with a loss over packed batches.

    Dropout is a function of (seed, step, rank): the generator is set anew at each step, so that a
    resumed run draws what the uninterrupted one would have drawn.
    """

    def __init__(
        self,
        config: Config,
        embedder: nn.Module,
        loss: nn.Module,
        progress: Callable[[int, int], float],
        auxiliary: Callable[[RouterOutput | None], dict[str, Tensor]],
    ) -> None:
        super().__init__()
        self.config, self.embedder, self.loss = config, embedder, loss
        self.progress, self.auxiliary = progress, auxiliary
        self.latest: dict[str, Tensor] = {}
        self.learning_rate = 0.0  # of the latest step; the optimizer already holds the next one's
        self.router: RouterOutput | None = None
        self.router_load = RouterLoad()

    def on_train_batch_start(self, batch: TrainingBatch, batch_idx: int) -> None:
        """Set the generators for this step."""
        torch.manual_seed(key_of(self.config.seed, "dropout", self.global_step, self.global_rank))

    def training_step(self, batch: TrainingBatch, batch_idx: int) -> Tensor:
        """The loss of one batch, a mean over its examples."""
        alpha = self.progress(self.global_step, self.config.training.steps)
        embeddings = self.embedder(batch.tokens, alpha)
        output = self.loss(embeddings.vectors, batch)
        total: Tensor = output.total
        terms = dict(output.terms)
        for name, term in self.auxiliary(embeddings.router).items():
            total = total + term
            terms[name] = term
        self.router = embeddings.router and embeddings.router.detach()
        self.router_load.count(self.router)
        if not torch.isfinite(total.detach()):
            raise NonFiniteLossError(f"the loss is {total.item()} at step {self.global_step + 1}")
        self.latest = {"loss": total.detach(), **{k: v.detach() for k, v in terms.items()}}
        return total

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Clip the global gradient norm, and let routing follow the step's load.

        Both happen once per optimizer step. Clipping is done here since Lightning refuses it with
        fused optimizers.

        Raises:
            NonFiniteLossError: the norm is NaN or infinite.
        """
        self.learning_rate = float(optimizer.param_groups[0]["lr"])
        limit = self.config.optimizer.max_grad_norm
        norm = nn.utils.clip_grad_norm_(self.parameters(), limit or float("inf"))
        if not torch.isfinite(norm):
            step = self.global_step + 1
            raise NonFiniteLossError(f"the gradient norm is {norm.item()} at step {step}")
        self.latest["gradient_norm"] = norm.detach()
        if (load := self.router_load.end_step()) is not None:
            routing.rebalance(self.config.routing, self.embedder, list(load))

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep the routers' load, so that a resumed run goes on counting."""
        checkpoint["router_load"] = self.router_load.total

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on counting."""
        self.router_load.total = checkpoint.get("router_load")

    def configure_optimizers(self) -> Any:
        """AdamW and its per-step schedule."""
        built, schedule = optimizer.build(self.config.optimizer, self, self.config.training.steps)
        return {
            "optimizer": built,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }
