"""From the options of an experiment to an embedder."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from embedexp import backbone, routing
from embedexp.backbone.families import family_of, lacks
from embedexp.backbone.positions import native
from embedexp.config.errors import UserError
from embedexp.config.trained import mismatch

from . import projection
from .embedder import Embedder
from .model_config import ModelConfig, ModelOptions

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def build_embedder(config: ModelOptions, device: str = "cpu") -> Embedder:
    """The model that an experiment starts from, with routing, mask and pooling in place.

    Random parts are a function of `config.seed` alone; torch's global generator is left as it
    was. A source that has experts already goes on with them. `device="meta"` builds without
    weights, downloads or tokenizer, to count parameters.

    Raises:
        UserError: the options do not fit each other or their source.
    """
    own = ModelConfig.of(config)
    check(own)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(own.seed)
        # Built on the CPU and then moved, so that random weights do not depend on the device.
        parts = load(own, "meta" if device == "meta" else "cpu")
    return Embedder(own, *parts).to(device)


def load(
    config: ModelConfig, device: str = "cpu"
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase | None, nn.Linear | None]:
    """The routed backbone of a model, its tokenizer and its projection.

    Experts and projection are the source's if it has some.

    Raises:
        UserError: the source's experts or projection are others than the options', or there is no
            such source.
    """
    if device != "meta" and (has := backbone.experts_in(config.backbone)) is not None:
        option = config.backbone
        layers = option.layers or native(option)["num_hidden_layers"]
        if (found := mismatch(has, config.routing, layers)) is not None:
            raise UserError(found[0], where=str(option.source), hint=found[1])
    model, tokenizer = backbone.load(
        config.backbone, device, partial(routing.apply, config.routing)
    )
    hidden = int(model.config.hidden_size)
    return model, tokenizer, projection.build(config, hidden, model.dtype, device)


def check(config: ModelConfig) -> None:
    """Whether the embedding's width and lengths are within what the backbone has.

    Raises:
        UserError: they are not.
    """
    architecture, embedding = native(config.backbone), config.embedding
    family = family_of(architecture)
    limit = family.max_positions
    for key in ("hidden_size", limit):
        if key is not None and key not in architecture:
            raise lacks(key)
    hidden = getattr(embedding, "projection", None) or architecture["hidden_size"]
    # How many dimensions routing weights add is only known when the model is built.
    if embedding.name != "moee" and embedding.width is not None and embedding.width > hidden:
        raise UserError(
            f"embedding.width={embedding.width} is more than the model's {hidden} dimensions",
            hint=f"at most {hidden}, or null for all",
        )
    if config.backbone.lora is not None and config.routing.name != "dense":
        raise UserError(
            f"backbone.lora trains adapters only, which routing={config.routing.name} lacks",
            hint="set backbone.lora=null or routing=dense",
        )
    if limit is None:
        return
    most = architecture[limit] - family.first_position(architecture)
    for key in ("query_tokens", "document_tokens"):
        tokens = getattr(embedding, key)
        if tokens > most:
            raise UserError(
                f"embedding.{key}={tokens} is more than the backbone's {most} positions",
                hint=f"at most {most}",
            )
