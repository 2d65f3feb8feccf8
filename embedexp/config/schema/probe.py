"""Probes of a backbone: fine-tuning on labelled tasks, over a grid, for several seeds."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .base import Option, field

ProbeMetric = Literal["accuracy", "f1", "matthews", "pearson", "spearman"]
Rate = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
TaskName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]


class ProbeTest(Option):
    """What a model that was trained in one language is tested on in others."""

    dataset: str | None = field(
        "hub name or local folder; null: the task's", identity=False
    )  # a folder's content counts instead
    subset: str = field("its configuration; {language} stands for the language")
    split: str = field("its split; {language} stands for the language")
    languages: list[str] = field("codes of the languages, as the dataset spells them", min_length=1)


class ProbeTask(Option):
    """One labelled task: where its rows are, what they ask, how answers are measured."""

    dataset: str = field(
        "hub name, local folder or builtin", identity=False
    )  # the name counts for the hub, the content for a folder
    subset: str | None = field("its configuration, or folder below; null where it has none")
    kind: Literal["classification", "regression", "choice"] = field(
        "a class, a number, or the right one of several answers"
    )
    texts: list[str] = field("columns of the first and second text", min_length=1, max_length=2)
    choices: list[str] | None = field("columns of the answers, for choice", min_length=2)
    label: str = field("column of the class, the number, or the place of the answer from 0")
    labels: list[str] | None = field("names of the classes in the order of their numbers")
    train: str = field("split to train on")
    dev: list[str] = field("splits to select on; their scores are averaged", min_length=1)
    test: ProbeTest | None = field("what is reported; null reports dev")
    metrics: list[ProbeMetric] = field("measures, averaged into the task's score", min_length=1)
    starts_from: str | None = field("task whose best model it starts from; null: the backbone")


class ProbeStage(Option):
    """Fine-tune the backbone on labelled tasks."""

    uses: ClassVar[tuple[str, ...]] = (
        "backbone",
        "routing",
        "mask_schedule",
        "stage",
        "compute",
        "tracking",
        "scale",
    )
    name: Literal["probe"] = field("option")
    tasks: dict[TaskName, ProbeTask] = field("the tasks by name", min_length=1)
    only: list[str] | None = field("train and score only these; null: all", min_length=1)
    epochs: int = field("passes over the training split", ge=1)
    seeds: list[Seed] = field("of head, data order and dropout", min_length=1)
    batch_sizes: list[Count] = field("examples a step, to select from", min_length=1)
    learning_rates: list[Rate] = field("peaks, to select from", min_length=1)
    warmup_ratio: float = field("share of the steps from zero to the peak", ge=0, lt=1)
    weight_decay: float = field("decay of matrices; biases and norms have none", ge=0)
    max_grad_norm: float | None = field("clip the global gradient norm; null does not", gt=0)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = field(
        "decay of AdamW's moments", strict=False
    )
    eps: float = field("AdamW's denominator term", gt=0)
    pooling: Literal["cls", "mean", "last_token"] = field("the vector that the head reads")
    head_dropout: float = field("dropout before both layers of the head", ge=0, lt=1)
    max_tokens: int = field("longest text or pair of texts", unit="tokens", ge=8)
    precision: Literal["float32", "bf16_mixed"] = field("arithmetic of the forward pass")
    max_steps: int | None = field("most steps of one training; null: no limit", unit="steps", ge=1)
    max_train_examples: int | None = field(
        "first so many rows of a training split; null: all", unit="examples", ge=1
    )
    max_examples: int | None = field(
        "first so many rows of every other split; null: all", unit="examples", ge=1
    )
    batch_tokens: int = field("tokens scored at once", unit="tokens", ge=8, identity=False)
