"""The whole experiment: one field per config group, and the keys that belong to none."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .analysis import Analysis
from .backbone import Backbone
from .base import Option, field
from .batching import Batching
from .compute import Compute
from .data import Data
from .embedding import Embedding
from .evaluation import Evaluation
from .loss import Loss
from .mask_schedule import MaskSchedule
from .merge import Merge
from .negatives import Negatives
from .optimizer import Optimizer
from .routing import Routing
from .scale import Scale
from .stage import Stage
from .tracking import Tracking
from .training import Training

Mark = Annotated[str, Field(pattern=r"^(published|code|ours|changed)(; \S.*)?$")]
"""Where a value comes from, in a word, and what there is to say of it."""


class Paths(Option):
    """Where things are written."""

    runs: str = field("where run directories are made", identity=False)
    cache: str = field("tokenised data and the like; safe to delete", identity=False)


class Experiment(Option):
    """An experiment, composed, resolved and validated."""

    backbone: Backbone = field("the transformer")
    routing: Routing = field("which parameters a token meets")
    mask_schedule: MaskSchedule = field("who may attend to whom")
    embedding: Embedding = field("from hidden states to one vector")
    data: Data = field("where examples come from")
    batching: Batching = field("which examples meet")
    negatives: Negatives = field("hard negatives")
    loss: Loss = field("what is learned")
    optimizer: Optimizer = field("how weights move")
    training: Training = field("how long and how exactly")
    evaluation: Evaluation = field("what is measured")
    analysis: Analysis = field("what else is asked of a model")
    merge: Merge = field("how models are combined")
    stage: Stage = field("what this run does")
    compute: Compute = field("where it runs")
    tracking: Tracking = field("who is told")
    scale: Scale = field("upper bounds on everything")
    name: str = field(
        "first part of the run directory's name",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        identity=False,
    )
    seed: int = field("initialisation, dropout and data order", ge=0)
    rerun: bool = field("repeat a finished run from the start", identity=False)
    paths: Paths = field("where things are written", identity=False)
    provenance: dict[str, Mark] = field("dotted key -> where its value comes from", identity=False)
    demo: list[str] = field("overrides that stand before yours at scale=demo", identity=False)


GROUPS: tuple[str, ...] = (
    "backbone",
    "routing",
    "mask_schedule",
    "embedding",
    "data",
    "batching",
    "negatives",
    "loss",
    "optimizer",
    "training",
    "evaluation",
    "analysis",
    "merge",
    "stage",
    "compute",
    "tracking",
    "scale",
)
