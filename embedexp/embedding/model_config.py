"""The part of an experiment that makes a model, enough to build it again."""

from __future__ import annotations

from typing import Protocol

from embedexp.config.schema.backbone import Backbone
from embedexp.config.schema.base import Option, field
from embedexp.config.schema.embedding import Embedding
from embedexp.config.schema.mask_schedule import MaskSchedule
from embedexp.config.schema.routing import Routing


class ModelOptions(Protocol):
    """Whatever has the groups of a model, a whole experiment above all."""

    @property
    def backbone(self) -> Backbone: ...  # noqa: D102
    @property
    def routing(self) -> Routing: ...  # noqa: D102
    @property
    def mask_schedule(self) -> MaskSchedule: ...  # noqa: D102
    @property
    def embedding(self) -> Embedding: ...  # noqa: D102
    @property
    def seed(self) -> int: ...  # noqa: D102


class ModelConfig(Option):
    """The groups of a model, apart from the experiment that trains it."""

    backbone: Backbone = field("the transformer")
    routing: Routing = field("which parameters a token meets")
    mask_schedule: MaskSchedule = field("who may attend to whom")
    embedding: Embedding = field("from hidden states to one vector")
    seed: int = field("initialisation", ge=0)

    @staticmethod
    def of(config: ModelOptions) -> ModelConfig:
        """The model's part of an experiment."""
        return ModelConfig(
            backbone=config.backbone,
            routing=config.routing,
            mask_schedule=config.mask_schedule,
            embedding=config.embedding,
            seed=config.seed,
        )
