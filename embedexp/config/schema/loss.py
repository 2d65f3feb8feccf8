"""Losses: what is learned from a batch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .base import Option, field
from .data import TrainingTask
from .language import MLM, SFT, CausalLM

Term = Literal[
    "other_positives",
    "own_hard_negatives",
    "other_hard_negatives",
    "other_queries",
    "other_documents",
]


class Matryoshka(Option):
    """The loss at several widths of the vectors, summed."""

    widths: list[Annotated[int, Field(ge=1)]] | None = field(
        "prefixes of the vectors that learn; null takes whole vectors", unit="dimensions"
    )
    weights: list[Annotated[float, Field(gt=0)]] | None = field(
        "weight of each width; null weighs all 1"
    )


class EmbeddingLoss(Option):
    """What every loss of embeddings has."""

    tasks: list[TrainingTask] = field("kinds of example it can learn from", min_length=1)
    matryoshka: Matryoshka = field("widths at which the loss is taken")


class InfoNCE(EmbeddingLoss):
    """InfoNCE whose denominator is declared; its names are labels of published sets of values."""

    name: Literal[
        "infonce",
        "nomic",
        "nomic_printed",
        "mote",
        "nemotron",
        "gecko",
        "gemini",
        "qwen3",
    ] = field("option", identity=False)  # the values say it all
    temperature: float = field("divides the cosines", gt=0)
    learnable_temperature: bool = field("learn the temperature, starting from that value")
    min_temperature: float = field("it never falls below this while it is learned", gt=0)
    denominator: list[Term] = field("terms beside the positive", min_length=1)
    directions: list[Literal["query_to_document", "document_to_query"]] = field(
        "who looks for whom; the loss is the mean over directions", min_length=1
    )
    false_negative_margin: float | None = field("leave out negatives above the positive by more")


class CoSENT(EmbeddingLoss):
    """CoSENT over scored pairs."""

    name: Literal["cosent"] = field("option")
    scale: float = field("multiplies differences of cosines", gt=0)


class Angle(EmbeddingLoss):
    """AnglE over scored pairs."""

    name: Literal["angle"] = field("option")
    scale: float = field("multiplies differences of similarities", gt=0)


class Beside(Option):
    """An InfoNCE beside another loss."""

    weight: float = field("weight of the InfoNCE; that of the other loss is 1; 0: none", ge=0)
    temperature: float = field("divides the cosines", gt=0)
    denominator: list[Term] = field("terms beside the positive", min_length=1)


class Distillation(EmbeddingLoss):
    """A teacher's scores of the positive and the hard negatives."""

    name: Literal["distillation"] = field("option")
    form: Literal["kl", "margin_mse"] = field("how scores are compared")
    temperature: float = field("divides the student's cosines", gt=0)
    teacher_temperature: float = field("divides the teacher's scores", gt=0)
    infonce: Beside = field("an InfoNCE beside it")


class Temperatures(Option):
    """InfoNCE temperature by task."""

    retrieval: float = field("temperature of retrieval examples", gt=0)
    classification: float = field("temperature of classification examples", gt=0)
    clustering: float = field("temperature of clustering examples", gt=0)


class Denominators(Option):
    """InfoNCE denominator by task."""

    retrieval: list[Term] = field("terms beside the positive of retrieval examples", min_length=1)
    classification: list[Term] = field("terms of classification examples", min_length=1)
    clustering: list[Term] = field("terms of clustering examples", min_length=1)


class Margins(Option):
    """Margin above the positive from which a negative is left out, by task; null keeps all."""

    retrieval: float | None = field("margin of retrieval examples")
    classification: float | None = field("margin of classification examples")
    clustering: float | None = field("margin of clustering examples")


class TaskWeights(Option):
    """Weight of each task's loss."""

    retrieval: float = field("weight of retrieval examples", gt=0)
    classification: float = field("weight of classification examples", gt=0)
    clustering: float = field("weight of clustering examples", gt=0)
    sts: float = field("weight of scored pairs", gt=0)


class TaskAwareLoss(EmbeddingLoss):
    """An example's task picks the loss and its temperature (TA-CL)."""

    name: Literal["task_aware"] = field("option")
    temperatures: Temperatures = field("InfoNCE temperature by task")
    denominators: Denominators = field("InfoNCE denominator by task")
    false_negative_margins: Margins = field("leave out negatives above the positive by more")
    weights: TaskWeights = field("weight of each task's loss; a batch sums over its tasks")
    sts: Literal["cosent", "angle"] = field("loss of scored pairs")
    scale: float = field("multiplies differences of similarities for sts", gt=0)


Loss = Annotated[
    InfoNCE | CoSENT | Angle | Distillation | TaskAwareLoss | MLM | CausalLM | SFT,
    Field(discriminator="name"),
]
