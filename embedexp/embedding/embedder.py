"""The embedder: a backbone with its routing, mask, pooling and prompts, from tokens to vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from embedexp import mask_schedule, routing
from embedexp.backbone.layout import PackedLayout
from embedexp.config.errors import UserError
from embedexp.config.tasks import INSTRUCTIONS
from embedexp.routing import RoutingPass

from . import layers, pooling
from .output import Embeddings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from embedexp.batching.token_batch import TokenBatch
    from embedexp.routing import RouterOutput

    from .model_config import ModelConfig

Role = Literal["query", "document"]


class Embedder(nn.Module):
    """Turns packed token batches, or texts, into one vector each.

    `config` is enough to build it again (`embedexp.embedding.build_embedder`). On the meta device
    there is no tokenizer, only parameters to count.
    """

    def __init__(
        self,
        config: ModelConfig,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None,
        projection: nn.Linear | None = None,
    ) -> None:
        super().__init__()
        self.config, self.model, self.tokenizer = config, model, tokenizer
        self.projection = projection
        self.schedule = mask_schedule.build(config.mask_schedule)
        self._pooling = pooling.build(config.embedding, model, tokenizer)
        self._experts = routing.experts_by_task(config.routing)

    @property
    def width(self) -> int:
        """Dimensions of the vectors."""
        if self.config.embedding.width is not None:
            return self.config.embedding.width
        return self._pooling.width if self.projection is None else self.projection.out_features

    @property
    def text_tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer of a model that can embed texts.

        Raises:
            RuntimeError: the model is on the meta device, which has none.
        """
        if self.tokenizer is None:
            raise RuntimeError("an embedder on the meta device has no tokenizer")
        return self.tokenizer

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def forward(self, batch: TokenBatch, alpha: float | None = None) -> Embeddings:
        """Embed n packed sequences; `alpha` opens the mask, by default as after training.

        Vectors are `[n, width]` float32, truncated, then normalised if the option says so.

        Raises:
            UserError: a task-routed model has no expert for a task in the batch.
        """
        order, expert_rows = self._by_expert(batch)
        if order is not None:
            batch = batch.select(order)
        if getattr(self.config.embedding, "layers", "last") == "all":
            with layers.watching(self.model) as mean_of:
                hidden, router = self._run(batch, expert_rows, alpha)
                hidden = mean_of(hidden)
        else:
            hidden, router = self._run(batch, expert_rows, alpha)
        vectors = self._pooling(hidden.float(), batch, router)
        if self.projection is not None:
            vectors = self.projection(vectors.to(self.projection.weight.dtype)).float()
        if order is not None:
            vectors = vectors.index_select(0, order.argsort())
        vectors = vectors[:, : self.width]
        if self.config.embedding.normalize:
            vectors = normalize(vectors, dim=-1)
        return Embeddings(vectors, router)

    def hidden(
        self, batch: TokenBatch, alpha: float | None = None
    ) -> tuple[Tensor, RouterOutput | None]:
        """Hidden states `[t, d]` of n packed sequences in their order, and what routers did.

        Raises:
            UserError: a task-routed model has no expert for a task in the batch.
        """
        order, expert_rows = self._by_expert(batch)
        if order is None:
            return self._run(batch, expert_rows, alpha)
        hidden, router = self._run(batch.select(order), expert_rows, alpha)
        places = torch.arange(len(hidden), device=hidden.device)
        moved = replace(batch, input_ids=places).select(order).input_ids
        return hidden.index_select(0, moved.argsort()), router

    def _run(
        self, batch: TokenBatch, expert_rows: list[int] | None, alpha: float | None
    ) -> tuple[Tensor, RouterOutput | None]:
        """The backbone over sequences that are in the order of their experts."""
        mask = self.schedule.mask(self.schedule.final if alpha is None else alpha)
        lengths = batch.lengths.tolist()
        routing_pass = RoutingPass(expert_rows, lengths)
        hidden: Tensor = self.model(
            input_ids=batch.input_ids[None],
            position_ids=batch.position_ids[None],
            packed_layout=PackedLayout.build(lengths, mask, batch.input_ids.device),
            routing_pass=routing_pass,
        ).last_hidden_state[0]
        return hidden, routing_pass.output()

    def expert_of(self, tasks: Sequence[str]) -> int | None:
        """The one expert that these instruction tasks share, 0 where there are no task experts.

        None if they do not share one.
        """
        if self._experts is None:
            return 0
        experts = {self._experts[INSTRUCTIONS.index(task)] for task in tasks}
        return experts.pop() if len(experts) == 1 else None

    def _by_expert(self, batch: TokenBatch) -> tuple[Tensor | None, list[int] | None]:
        """How to order sequences so that each task expert's are together, and rows per expert.

        The order is None if the batch is in order already, or if tasks play no role.

        Raises:
            UserError: a task in the batch has no expert.
        """
        if self._experts is None:
            return None, None
        lookup = torch.tensor(self._experts, device=batch.task_ids.device)
        experts = lookup[batch.task_ids]
        if bool((experts < 0).any()):
            task = INSTRUCTIONS[int(batch.task_ids[experts < 0][0])]
            raise UserError(
                f"no expert for {task}",
                where="routing.experts",
                hint=f"train with +routing.experts.{task}=0; tasks may share an expert",
            )
        rows = torch.zeros(max(self._experts) + 1, dtype=torch.int64, device=experts.device)
        rows.index_add_(0, experts, batch.lengths)
        ordered = bool((experts.diff() >= 0).all())
        return None if ordered else experts.argsort(stable=True), rows.tolist()

    def encode(
        self,
        texts: Sequence[str],
        *,
        task: str = "search_document",
        role: Role | None = None,
        width: int | None = None,
        batch_tokens: int | None = None,
        progress: bool = False,
        on_batch: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """Vectors of texts, `[n, width]` float32, in their order, independent of each other.

        `task` is an instruction task: it chooses the prompt and, in task-routed models, the
        expert. `role` chooses which of the two lengths texts are cut to, by default the query's
        for `search_query` and the document's for the rest. `width` truncates further. So many
        tokens are embedded at once as `batch_tokens` says, or as suit the device. `on_batch` is
        told how many more texts are done.

        Raises:
            UserError: unknown task or role, or more dimensions than there are.
        """
        from .encoding import encode

        return encode(
            self,
            texts,
            task=task,
            role=role,
            width=width,
            batch_tokens=batch_tokens,
            progress=progress,
            on_batch=on_batch,
        )

    def save(self, directory: str | Path) -> None:
        """Write a sentence-transformers folder, all or nothing (see `embedexp.embedding.saving`).

        Raises:
            UserError: the folder exists and holds something else.
        """
        from .saving import save

        save(self, directory)
