"""What a training stage trains: built anew, or with the weights of a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from embedexp.backbone import heads
from embedexp.batching.permutation import key_of
from embedexp.embedding import build_embedder
from embedexp.training import saving
from embedexp.training.averaging import average_of
from embedexp.training.fit import objective_of
from embedexp.training.language_model import LanguageObjective

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config import Config
    from embedexp.embedding import Embedder
    from embedexp.training.contrastive import ContrastiveObjective

    Trained = ContrastiveObjective | LanguageObjective


def language(config: Config, embedder: Embedder) -> LanguageObjective:
    """The embedder with its head; a new head is a function of the seed alone."""
    option = embedder.config.backbone
    if embedder.projection is not None:
        embedder.projection.requires_grad_(False)  # the source's, which goes along as it is
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key_of(config.seed, "head"))
        head = heads.load(option, embedder.model)
    return LanguageObjective(
        config.loss.name, embedder, head, config.routing, config.training.chunk_tokens
    )


def trained(config: Config, checkpoint: Path) -> Trained:
    """What the stage of `config` trains, on the CPU, with the weights of a checkpoint.

    With merge=ema or last_k these are the average, once it has begun.

    Raises:
        UserError: the checkpoint does not fit, or can't be read.
    """
    build = objective_of if config.stage.name == "contrastive" else language
    objective: Trained = build(config, build_embedder(config))
    saving.load_weights(objective, checkpoint, average_of(config))
    return objective
