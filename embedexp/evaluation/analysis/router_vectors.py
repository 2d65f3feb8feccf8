"""Hidden states and routing weights of a model, as MoEE takes them (arXiv 2410.10814)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Literal

from embedexp.config.errors import UserError
from embedexp.config.schema.embedding import MoEE, Prompts
from embedexp.embedding import Embedder, moee, routers
from embedexp.embedding.pooling import ExpertPooling

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.floating[Any]]

Source = Literal["hidden_state", "routing_weights", "concat", "sum"]
"""What `embedding=moee` takes from a model."""


def with_source(embedder: Embedder, source: Source, **keys: Any) -> Embedder:
    """The same model, weights shared, as `embedding=moee` with a source and further keys of it.

    Lengths and prompts stay those of the model. What is not given is as plain as it can be: the
    last token's probabilities, alpha 1, neither standardised nor normalised.

    Raises:
        UserError: the model routes no tokens to experts.
    """
    old = embedder.config.embedding
    if not routers.expert_counts(embedder.model):
        raise UserError(
            "the model routes no tokens to experts: it has no routing weights",
            where="stage.model",
            hint="name a mixture of experts, such as a run with routing=moe",
        )
    plain: dict[str, Any] = {
        "router": "probabilities",
        "router_pooling": "last_token",
        "alpha": 1.0,
    }
    plain |= {"standardize": "none", "normalize": False, "width": None}
    plain["clean"] = getattr(old, "clean", False)
    option = MoEE(
        name="moee",
        source=source,
        query_tokens=old.query_tokens,
        document_tokens=old.document_tokens,
        prompts=old.prompts,
        **(plain | keys),
    )
    config = embedder.config.model_copy(update={"embedding": option})
    if old.name != "moee":
        return Embedder(config, embedder.model, embedder.tokenizer)
    # Its routers are watched already; watching them again would record each token twice.
    found = copy.copy(embedder)
    found._modules = dict(embedder._modules)
    found.config = config
    pooling = ExpertPooling.__new__(ExpertPooling)
    pooling.option, pooling.width = option, width(embedder, source)
    found._pooling = pooling
    return found


def width(embedder: Embedder, source: Source) -> int:
    """Dimensions of the vectors of a source."""
    hidden = int(embedder.model.config.hidden_size)
    experts = sum(routers.expert_counts(embedder.model))
    parts = {"hidden_state": hidden, "routing_weights": experts}
    return parts.get(source, hidden + experts)


def with_prompt(embedder: Embedder, prompt: str) -> Embedder:
    """The same model with one prompt for all instructions."""
    prompts = Prompts(**dict.fromkeys(Prompts.model_fields, prompt))
    found = copy.copy(embedder)
    found._modules = dict(embedder._modules)
    embedding = embedder.config.embedding.model_copy(update={"prompts": prompts})
    found.config = embedder.config.model_copy(update={"embedding": embedding})
    return found


def parts(
    embedder: Embedder, texts: Sequence[str], *, task: str, standardize: str = "none"
) -> tuple[Vectors, Vectors]:
    """Hidden states `[n, d]` and routing weights `[n, sum of E]` of texts, in one pass.

    `embedder` comes from `with_source(..., "concat")`. Hidden states are as they are; routing
    weights are standardised over each vector, or over all texts (`batch`).
    """
    import torch

    vectors = embedder.encode(texts, task=task)
    hidden = width(embedder, "hidden_state")
    routing = moee.standardize(torch.from_numpy(vectors[:, hidden:].copy()), standardize)
    return vectors[:, :hidden], routing.numpy()
