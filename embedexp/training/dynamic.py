"""Dynamic negatives in training: chosen when a step begins, judged by its vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embedexp.batching.collate import TrainingBatch
    from embedexp.negatives.replacement import DynamicNegatives


class Deferred:
    """The batch of a step that is made when the step begins: it depends on the steps before it."""

    def __init__(self, step: int) -> None:
        self.step = step

    def to(self, device: torch.device | str, **_: Any) -> Deferred:
        """Itself: there is nothing to move yet."""
        del device
        return self

    def __len__(self) -> int:
        raise TypeError("a deferred batch is not made yet")

    def figures(self) -> dict[str, Any]:
        """Nothing is known yet."""
        raise TypeError("a deferred batch is not made yet")


class DynamicTraining:
    """What training asks of dynamic negatives.

    A loader fetches ahead, when the scores of the running step are not known; so it yields deferred
    batches, which are made in their step. A resumed run then sees what an uninterrupted one sees.
    """

    def __init__(self, negatives: DynamicNegatives) -> None:
        self.negatives = negatives

    def observe(self, batch: TrainingBatch, vectors: Tensor, step: int) -> dict[str, float]:
        """Judge the own hard negatives of a global batch by its `vectors [2q+m, d]`.

        Returns their mean cosine (`hardness`; only where there are any), and how many of them were
        `judged`, `replaced`, and to be replaced but without candidates (`exhausted`).
        """
        queries, _, hard, present = batch.split(vectors)
        if hard is None or present is None:
            return {"judged": 0.0, "replaced": 0.0, "exhausted": 0.0}
        with torch.autocast(vectors.device.type, enabled=False):
            query = normalize(queries.float(), dim=-1)
            scores_qh = torch.einsum("qd,qhd->qh", query, normalize(hard.float(), dim=-1))
        seen = self.negatives.observe(
            batch.examples.cpu().numpy(), scores_qh.cpu().numpy(), present.cpu().numpy(), step
        )
        found = {
            "judged": float(seen.judged),
            "replaced": float(seen.replaced),
            "exhausted": float(seen.exhausted),
        }
        return found | ({"hardness": seen.hardness} if seen.hardness == seen.hardness else {})

    def state_dict(self) -> list[dict[str, Tensor]]:
        """The state, as tensors, which a checkpoint can hold."""
        return [
            {name: torch.from_numpy(values) for name, values in state.items()}
            for state in self.negatives.state_dict()
        ]

    def load_state_dict(self, states: list[Mapping[str, Tensor]]) -> None:
        """Go on from `states`."""
        self.negatives.load_state_dict(
            [{name: values.numpy() for name, values in state.items()} for state in states]
        )
