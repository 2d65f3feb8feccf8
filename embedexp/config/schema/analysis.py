"""Analyses: what is asked of a trained model beside its scores."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import Option, field

Instruction = Literal["search_query", "search_document", "classification", "clustering"]


class NoAnalysis(Option):
    """No analysis."""

    evaluates: ClassVar[bool] = False
    name: Literal["none"] = field("option")


class TextAnalysis(Option):
    """An analysis of vectors of texts."""

    evaluates: ClassVar[bool] = False
    texts: str | None = field("file with a text on each line; null takes built-in glosses")
    documents: int = field("texts, the first ones", unit="texts", ge=2)


class TaskSimilarity(TextAnalysis):
    """How alike a model's vectors of one text are under different instructions."""

    name: Literal["task_similarity"] = field("option")
    baseline: str | None = field("another model, whose similarities are tested to be higher")
    tasks: list[Instruction] = field("instructions, compared in pairs", min_length=2)


class RouterVectors(TextAnalysis):
    """An analysis of hidden states and routing weights."""

    router: Literal["logits", "probabilities"] = field("of all experts, in all expert layers")
    router_pooling: Literal["last_token", "mean"] = field("routing weights of which tokens")
    standardize: Literal["none", "vector", "batch"] = field("of the routing weights, over what")


class RouterAgreement(RouterVectors):
    """Whether hidden states and routing weights group texts in the same way."""

    name: Literal["router_agreement"] = field("option")
    task: Instruction = field("whose prompt the texts carry")
    clusters: int = field("groups that k-means makes", ge=2)
    restarts: int = field("starts of k-means, of which the best counts", ge=1)


class PromptRobustness(RouterVectors):
    """How far similarities keep their order when the prompt changes."""

    name: Literal["prompt_robustness"] = field("option")
    prompts: dict[str, str] = field("prompts by name, with {text} where the text stands")


class Matryoshka(Option):
    """Scores against the number of dimensions that are kept."""

    evaluates: ClassVar[bool] = True
    name: Literal["matryoshka"] = field("option")
    widths: list[int] = field("dimensions that are kept", unit="dimensions", min_length=1)


class MoEECombinations(Option):
    """Scores of hidden states, routing weights, and both, put together in two ways."""

    evaluates: ClassVar[bool] = True
    name: Literal["moee_combinations"] = field("option")
    alpha: float = field("weight of the routing weights", gt=0)
    router: Literal["logits", "probabilities"] = field("of all experts, in all expert layers")
    router_pooling: Literal["last_token", "mean"] = field("routing weights of which tokens")
    standardize: Literal["none", "vector", "batch"] = field("of both parts, over what")
    standardize_hidden_state: bool = field("standardise the hidden state where it stands alone")


Analysis = Annotated[
    NoAnalysis
    | TaskSimilarity
    | RouterAgreement
    | PromptRobustness
    | Matryoshka
    | MoEECombinations,
    Field(discriminator="name"),
]
