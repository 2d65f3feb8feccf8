"""Embedding: from hidden states to one vector per text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field

PLACEHOLDER = "{text}"
"""Where the text stands in a prompt; a prompt without it stands before the text."""


class Prompts(Option):
    """What stands around a text, by instruction task: a prefix, or a template with {text} in it."""

    search_query: str = field("around queries of retrieval")
    search_document: str = field("around documents of retrieval")
    classification: str = field("around texts of classification, pair and similarity tasks")
    clustering: str = field("around texts of clustering")


class CommonEmbedding(Option):
    """Prompts, lengths and width: what every way from hidden states to a vector has."""

    normalize: bool = field("scale vectors to length 1")
    width: int | None = field("keep only the first so many dimensions", unit="dimensions", ge=1)
    query_tokens: int = field("longest search query", unit="tokens", ge=3)
    document_tokens: int = field("longest text of any other kind", unit="tokens", ge=3)
    prompts: Prompts = field("what stands around the input, by instruction task")


class Pooled(CommonEmbedding):
    """Hidden states made one vector by pooling, and maybe another by a linear layer."""

    layers: Literal["last", "all"] = field(
        "whose hidden states: the last layer's, or the mean over all", without="last"
    )
    projection: int | None = field(
        "a trained linear layer from the pooled vector to so many dimensions",
        unit="dimensions",
        ge=1,
        without=None,
    )


class Mean(Pooled):
    """The mean of the hidden states."""

    name: Literal["mean"] = field("option")
    exclude_instruction: bool = field("leave the prompt's tokens out of the mean")


class WeightedMean(Pooled):
    """The mean of the hidden states, weighted by position."""

    name: Literal["weighted_mean"] = field("option")
    exclude_instruction: bool = field("leave the prompt's tokens out of the mean")


class LastToken(Pooled):
    """The hidden state of the last token."""

    name: Literal["last_token"] = field("option")


class Cls(Pooled):
    """The hidden state of the first token."""

    name: Literal["cls"] = field("option")


class MoEE(CommonEmbedding):
    """Hidden state and routing weights of a mixture of experts, without training."""

    name: Literal["moee"] = field("option")
    source: Literal["hidden_state", "routing_weights", "concat", "sum"] = field(
        "what the vector is made of"
    )
    router: Literal["logits", "probabilities"] = field("which of the routers' numbers")
    router_pooling: Literal["last_token", "mean"] = field("whose routing weights are taken")
    alpha: float = field("weight of the routing weights' similarity", gt=0)
    clean: bool = field(
        "end texts with a full stop, and take ' for \" and a space for _", without=False
    )
    standardize: Literal["none", "vector", "batch"] = field("over what parts are standardised")


Embedding = Annotated[Mean | WeightedMean | LastToken | Cls | MoEE, Field(discriminator="name")]
