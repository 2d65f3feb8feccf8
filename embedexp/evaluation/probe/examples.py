"""Rows of a labelled task as token sequences and labels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from embedexp.config import probe_data
from embedexp.config.errors import UserError, shorten
from embedexp.data.labelled import rows

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerBase

    from embedexp.config.schema.probe import ProbeStage, ProbeTask
    from embedexp.data.labelled import Address


@dataclass(frozen=True)
class Examples:
    """n examples of one split, each of `choices` sequences (1 where there is nothing to choose).

    `tokens` and `segments` hold n times `choices` sequences, example by example; `labels [n]` are
    class numbers, places of the right answer, or float64 values.
    """

    tokens: list[list[int]]
    segments: list[list[int]]
    labels: NDArray[np.int64] | NDArray[np.float64]
    choices: int

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class TaskData:
    """A task's splits. `tests` is empty where `dev` is what is reported."""

    name: str
    outputs: int
    train: Examples
    dev: dict[str, Examples]
    tests: dict[str, Examples]


def load(
    name: str, task: ProbeTask, stage: ProbeStage, tokenizer: PreTrainedTokenizerBase
) -> TaskData:
    """Read and tokenise every split of a task.

    Raises:
        UserError: data, a column or a label is missing or is not what the task says.
    """
    reader = _Reader(task, stage, tokenizer)
    first, *others = probe_data.addresses(name, task)[: 1 + len(task.dev)]
    train = reader.read(first, stage.max_train_examples)
    dev = {address.split: reader.read(address, stage.max_examples) for address in others}
    tests = {
        language: reader.read(address, stage.max_examples)
        for language, address in probe_data.tests(name, task).items()
    }
    return TaskData(name, reader.outputs, train, dev, tests)


class _Reader:
    """Reads splits of one task; the classes are those named, or those of the first split read."""

    def __init__(
        self, task: ProbeTask, stage: ProbeStage, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self.task, self.stage, self.tokenizer = task, stage, tokenizer
        self.classes = task.labels

    @property
    def outputs(self) -> int:
        """Numbers that the head gives for a sequence."""
        return len(self.classes or ()) if self.task.kind == "classification" else 1

    def read(self, address: Address, limit: int | None) -> Examples:
        """One split."""
        task = self.task
        columns = [*task.texts, *(task.choices or ()), task.label]
        found = rows(address, columns, limit)
        labels = self._labels([row[task.label] for row in found], address)
        first, second = self._texts(found, address)
        encoded = self.tokenizer(
            first,
            second,
            truncation=True,
            max_length=self.stage.max_tokens,
            padding=False,
            return_token_type_ids=True,
            return_attention_mask=False,
        )
        tokens: list[list[int]] = encoded["input_ids"]
        return Examples(tokens, encoded["token_type_ids"], labels, len(task.choices or (None,)))

    def _texts(
        self, found: list[dict[str, Any]], address: Address
    ) -> tuple[list[str], list[str] | None]:
        task = self.task
        for number, row in enumerate(found, start=1):
            for name in (*task.texts, *(task.choices or ())):
                if not isinstance(row[name], str):
                    raise UserError(
                        f"row {number} of {address} has no text in column {name}",
                        where=address.where,
                    )
        if task.choices is not None:
            asked = [" ".join(row[name] for name in task.texts) for row in found]
            first = [text for text in asked for _ in task.choices]
            return first, [row[name] for row in found for name in task.choices]
        columns = [[row[name] for row in found] for name in task.texts]
        return columns[0], columns[1] if len(columns) > 1 else None

    def _labels(
        self, values: list[Any], address: Address
    ) -> NDArray[np.int64] | NDArray[np.float64]:
        if self.task.kind == "regression":
            for number, value in enumerate(values, start=1):
                if isinstance(value, bool) or not isinstance(value, int | float):
                    raise _unlabelled(number, value, address, "a number")
            return np.array(values, np.float64)
        if self.task.kind == "classification" and self.classes is None:
            self.classes = sorted({str(value) for value in values if value is not None})
        choices = len(self.task.choices or ())
        known = self.classes if self.task.kind == "classification" else None
        numbers = []
        for number, value in enumerate(values, start=1):
            if known is not None and str(value) in known and value is not None:
                numbers.append(known.index(str(value)))
                continue
            most = len(known) if known is not None else choices
            whole = isinstance(value, int) and not isinstance(value, bool)
            if known is None and (named := re.fullmatch(r"choice(\d+)", str(value))):
                # The hub's COPA names its two classes choice1 and choice2.
                value, whole = int(named[1]) - 1, True
            if not whole or not 0 <= value < most or (known and self.task.labels is None):
                wanted = ", ".join(known[:6]) if known else f"0 to {most - 1}"
                raise _unlabelled(number, value, address, f"one of {wanted}")
            numbers.append(value)
        return np.array(numbers, np.int64)


def _unlabelled(number: int, value: Any, address: Address, wanted: str) -> UserError:
    return UserError(
        f"row {number} of {address} has the label {shorten(value, 40)}, not {wanted}",
        where=address.where,
        hint="name a split with labels, or mend label and labels",
    )
