"""From the options of an experiment to an embedder."""

from __future__ import annotations

import torch

from embedexp import backbone, routing
from embedexp.backbone.families import family_of, lacks
from embedexp.config.errors import UserError

from .embedder import Embedder
from .model_config import ModelConfig, ModelOptions


def build_embedder(config: ModelOptions, device: str = "cpu") -> Embedder:
    """The model that an experiment starts from, with routing, mask and pooling in place.

    Random parts are a function of `config.seed` alone; torch's global generator is left as it
    was. `device="meta"` builds without weights, downloads or tokenizer, to count parameters.

    Raises:
        UserError: the options do not fit each other or their source.
    """
    own = ModelConfig.of(config)
    check(own)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(own.seed)
        # Built on the CPU and then moved, so that random weights do not depend on the device.
        model, tokenizer = backbone.load(own.backbone, "meta" if device == "meta" else "cpu")
        routing.apply(own.routing, model)
    return Embedder(own, model, tokenizer).to(device)


def check(config: ModelConfig) -> None:
    """Whether the embedding's width and lengths are within what the backbone has.

    Raises:
        UserError: they are not.
    """
    architecture, embedding = config.backbone.architecture, config.embedding
    limit = family_of(architecture).max_positions
    for key in ("hidden_size", limit):
        if key is not None and key not in architecture:
            raise lacks(key)
    hidden = architecture["hidden_size"]
    if embedding.width is not None and embedding.width > hidden:
        raise UserError(
            f"embedding.width={embedding.width} is more than the backbone's {hidden} dimensions",
            hint=f"at most {hidden}, or null for all",
        )
    if limit is None:
        return
    for key in ("query_tokens", "document_tokens"):
        tokens = getattr(embedding, key)
        if tokens > architecture[limit]:
            raise UserError(
                f"embedding.{key}={tokens} is more than the backbone's "
                f"{architecture[limit]} positions",
                hint=f"at most {architecture[limit]}",
            )
