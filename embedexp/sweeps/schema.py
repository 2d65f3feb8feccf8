"""What a sweep file may say: the table's rows and columns, what is measured, what was published."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Mode = Literal["grid", "list", "one_at_a_time", "zip", "chain"]
Phase = Literal["before", "after"]
Overrides = list[str]


class _Part(BaseModel):
    """Strict and frozen; a key that nobody reads is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _label(value: Any) -> Any:
    """YAML reads an unquoted 2048 or no as something else than the text that a table shows."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value


Label = Annotated[str, BeforeValidator(_label), Field(min_length=1)]


class Paper(_Part):
    """Which table this is."""

    name: str = Field(description="the paper's folder in conf/paper")
    table: str = Field(description="the table or figure, as the paper numbers it")
    arxiv: str = Field(description="arXiv number", pattern=r"^\d{4}\.\d{4,5}$")


class Stage(_Part):
    """Overrides of one of a cell's runs; a list is `{full: [...]}`."""

    full: Overrides = Field(default=[], description="overrides")
    demo: Overrides = Field(default=[], description="further overrides at scale=demo")

    @model_validator(mode="before")
    @classmethod
    def _list_is_full(cls, value: Any) -> Any:
        return {"full": value} if isinstance(value, list) else value

    def overrides(self, *, demo: bool) -> Overrides:
        """What is set at this scale."""
        return [*self.full, *(self.demo if demo else [])]


class Entry(_Part):
    """What one label of an axis means: overrides of the cell's last stage, and of others by name.

    A list stands for `{full: [...]}`. Without `demo`, the same holds at `scale=demo`. `show` and
    `phase` choose whose scores the table shows, if not the last stage's after training.
    """

    full: Overrides = Field(default=[], description="overrides")
    demo: Overrides | None = Field(default=None, description="overrides at scale=demo instead")
    stages: dict[Label, Stage] = Field(default={}, description="overrides of other stages")
    only: list[Label] | None = Field(default=None, description="the stages that a cell has")
    show: Label | None = Field(default=None, description="the stage whose scores are shown")
    phase: Phase | None = Field(default=None, description="scores before or after training")

    @model_validator(mode="before")
    @classmethod
    def _list_is_full(cls, value: Any) -> Any:
        return {"full": value} if isinstance(value, list) else value

    def overrides(self, *, demo: bool) -> Overrides:
        """What is set at this scale."""
        return self.demo if demo and self.demo is not None else self.full


class Figure(_Part):
    """A number in a file that a run leaves."""

    file: str = Field(description="path in the run directory, a JSON file")
    key: str = Field(description="dotted key in it")


class Selection(_Part):
    """Which scores are averaged: of tasks by name, of mteb's types, of a benchmark, or all."""

    tasks: list[str] | None = Field(default=None, description="tasks by name")
    types: list[str] | None = Field(default=None, description="types of task, in mteb's words")
    benchmark: str | None = Field(default=None, description="all tasks of a benchmark of mteb's")

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        chosen = [key for key in ("tasks", "types", "benchmark") if getattr(self, key) is not None]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} exclude each other")
        return self


class Measure(Selection):
    """One number of a run: a mean over tasks in points (0 to 100), or a figure as it is."""

    metric: str | None = Field(default=None, description="mteb's name; null: each task's main one")
    average: Literal["tasks", "types"] = Field(
        default="tasks", description="the mean over all tasks, or over the means of their types"
    )
    phase: Phase = Field(default="after", description="scores before or after training")
    demo: Selection | None = Field(default=None, description="which scores at scale=demo instead")
    figure: Figure | None = Field(default=None, description="a number of an analysis instead")
    at: Literal["full", "demo"] | None = Field(
        default=None, description="shown at this scale only; null: at both"
    )
    better: Literal["higher", "lower"] = Field(default="higher", description="for reading only")

    @model_validator(mode="after")
    def _figure_or_scores(self) -> Self:
        scores = ("tasks", "types", "benchmark", "metric", "demo")
        if self.figure is not None and any(getattr(self, key) is not None for key in scores):
            raise ValueError("a figure is no score: tasks, types and metrics have no effect on it")
        return self

    def selection(self, *, demo: bool) -> Selection:
        """Which scores are averaged at this scale."""
        return self.demo if demo and self.demo is not None else self


class Published(_Part):
    """The paper's figures, nested as the table is: row, column (and axes), measure.

    A level that the table has not is left out. What was not seen is null or left out.
    """

    source: list[str] = Field(description="where the figures were read", min_length=1)
    values: dict[Label, Any] = Field(description="label -> figure or further labels")
    difference_to: Label | None = Field(
        default=None, description="figures are differences to this row; ours are shown so too"
    )


class Comparison(_Part):
    """A pair of rows, or of cells, and which of them the paper says is higher."""

    of: list[Label] = Field(description="a row, or all labels of a cell", min_length=1)
    against: list[Label] = Field(description="the other", min_length=1)
    claim: Literal["higher", "lower"] | None = Field(
        default=None, description="what the paper says of the first; null: its figures say it"
    )
    measures: list[Label] | None = Field(default=None, description="null: all")

    @model_validator(mode="before")
    @classmethod
    def _pair(cls, value: Any) -> Any:
        if isinstance(value, list) and len(value) == 2:
            value = {"of": value[0], "against": value[1]}
        if isinstance(value, dict):
            value = dict(value)
            for key in ("of", "against"):
                if key in value and not isinstance(value[key], list):
                    value[key] = [value[key]]
        return value


class Demo(_Part):
    """What else `scale=demo` needs."""

    base: Overrides = Field(default=[], description="overrides of all cells, after those of base")


class Sweep(_Part):
    """A table: what its cells are, what is measured in them, and what the paper printed."""

    title: str = Field(description="the table's heading", min_length=1)
    question: str = Field(description="what the table answers, in one sentence", min_length=1)
    paper: Paper | None = Field(default=None, description="which published table this is")
    base: Overrides = Field(default=[], description="overrides of all cells")
    mode: Mode = Field(default="grid", description="how labels become cells")
    stages: dict[Label, Stage] = Field(default={}, description="runs of a cell, first to last")
    rows: dict[Label, Entry] = Field(default={}, description="label -> overrides")
    columns: dict[Label, Entry] = Field(default={}, description="label -> overrides")
    axes: dict[Label, dict[Label, Entry]] = Field(default={}, description="further axes, by name")
    include: list[dict[Label, Label]] = Field(default=[], description="only cells that fit one")
    exclude: list[dict[Label, Label]] = Field(default=[], description="no cells that fit one")
    seeds: list[int] = Field(default=[0], description="repetitions of each cell", min_length=1)
    measures: dict[Label, Measure] = Field(default={}, description="label -> what is measured")
    published: Published | None = Field(default=None, description="the paper's figures")
    comparisons: list[Comparison] | None = Field(
        default=None, description="pairs; null: each row against the first"
    )
    footnotes: list[str] = Field(default=[], description="known conflicts and what else to know")
    demo: Demo = Field(default=Demo(), description="what scale=demo changes")

    @property
    def all_measures(self) -> dict[str, Measure]:
        """The measures, or the mean over all tasks where the file names none."""
        return self.measures or {"mean over tasks": Measure()}

    def measures_at(self, *, demo: bool) -> dict[str, Measure]:
        """The measures that are shown at this scale."""
        scale = "demo" if demo else "full"
        return {name: one for name, one in self.all_measures.items() if one.at in (None, scale)}
