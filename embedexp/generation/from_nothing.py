"""Questions for tasks, and for examples of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from math import ceil
from typing import TYPE_CHECKING, Any

from embedexp.config import prompt_files

from . import languages, reading, shares
from .reading import InvalidError, Limits
from .work import Question

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embedexp.config.schema.generate import GenerateStage

    from .answers import Answer
    from .work import Outcome

HIGHEST = 5
"""The scale of similarities in prompts: 0 to 5, as STS has it."""

KNOWN = ("task", "labels", "language", "negatives", "score")
TASK_LIMITS = Limits(10, 1000)
LABEL_LIMITS = Limits(1, 100)


@dataclass(frozen=True)
class Task:
    """What examples are to be about; `labels` in classification only. `by` proposed it."""

    text: str
    labels: tuple[str, ...]
    by: str


def proposals(option: GenerateStage) -> Iterator[Question]:
    """Questions for lists of tasks: by one generator for all, or by each for itself."""
    key = "stage.propose_prompt"
    name = prompt_files.of_stage(option)[key]
    found = prompt_files.template(name, key, ("count", "number"))
    weights = {name: each.share for name, each in option.generators.items()}
    wanted = (
        {option.proposer: option.tasks}
        if option.proposer is not None
        else shares.quotas(weights, option.tasks)
    )
    for name, count in wanted.items():
        for number in range(ceil(count / option.tasks_per_request)):
            size = min(option.tasks_per_request, count - number * option.tasks_per_request)
            text = found.substitute(count=size, number=number + 1)
            yield Question(f"propose {name} {number}", name, text, _tasks_of(option, size))


def _tasks_of(option: GenerateStage, count: int) -> Any:
    def read(answer: Answer) -> dict[str, Any]:
        entries = reading.fields(answer).get("tasks")
        if not isinstance(entries, list) or not entries:
            raise InvalidError("no tasks")
        found = []
        for entry in entries[:count]:
            labels: list[str] = []
            if option.kind == "classification":
                if not isinstance(entry, dict):
                    raise InvalidError("a task without labels")
                labels = reading.texts(entry, "labels", LABEL_LIMITS, 2)
                labels = reading.texts(entry, "labels", LABEL_LIMITS, len(entry["labels"]))
                if len({reading.normal(label) for label in labels}) < len(labels):
                    raise InvalidError("a task with a label twice")
                entry = entry.get("task")
            found.append({"task": reading.checked(entry, "task", TASK_LIMITS), "labels": labels})
        return {"tasks": found}

    return read


def tasks(outcomes: Iterable[Outcome]) -> list[Task]:
    """The distinct tasks of the proposals, of each proposer no more than were asked for."""
    seen: set[str] = set()
    found = []
    for outcome in outcomes:
        for entry in (outcome.fields or {"tasks": []})["tasks"]:
            key = reading.normal(entry["task"])
            if key not in seen:
                seen.add(key)
                found.append(
                    Task(entry["task"], tuple(entry["labels"]), outcome.question.generator)
                )
    return found


def examples(option: GenerateStage, seed: int, found: list[Task]) -> Iterator[Question]:
    """Questions for examples: generators and languages by their shares, tasks in turn."""
    key = "stage.example_prompt"
    known = (*KNOWN, *option.attributes)
    asked = prompt_files.template(prompt_files.of_stage(option)[key], key, known)
    weights = {name: each.share for name, each in option.generators.items()}
    count = option.examples
    writers = shares.assigned(weights, count, seed, "generators")
    codes = shares.assigned(option.languages, count, seed, "languages")
    scores = shares.assigned({str(s): 1.0 for s in range(HIGHEST + 1)}, count, seed, "scores")
    own = {
        name: [task for task in found if option.proposer is not None or task.by == name] or found
        for name in weights
    }
    in_turn = {name: cycle(mine) for name, mine in own.items()}
    for number in range(count):
        writer, code = writers[number], codes[number]
        task = next(in_turn[writer])
        drawn = {
            name: shares.drawn(values, seed, name, number)
            for name, values in option.attributes.items()
        }
        text = asked.substitute(
            drawn,
            task=task.text,
            labels=", ".join(task.labels),
            language=languages.name(code),
            negatives=option.negatives,
            score=scores[number],
        )
        reader = _Example(option, task, code, int(scores[number]))
        yield Question(f"example {number}", writer, text, reader)


@dataclass(frozen=True)
class _Example:
    """Reads one example of a task."""

    option: GenerateStage
    task: Task
    language: str
    score: int

    def __call__(self, answer: Answer) -> dict[str, Any]:
        found = reading.fields(answer)
        limits = Limits(self.option.shortest, self.option.longest)
        about = {"task": self.task.text, "language": self.language}
        return {**getattr(self, f"_{self.option.kind}")(found, limits), **about}

    def _retrieval(self, found: dict[str, Any], limits: Limits) -> dict[str, Any]:
        code, count = self.language, self.option.negatives
        query = reading.text(found, "query", limits, code)
        positive = reading.text(found, "positive", limits, code)
        negatives = reading.texts(found, "negatives", limits, count, code) if count else []
        if reading.same(query, positive):
            raise InvalidError("the positive is the query")
        if any(reading.same(negative, positive) for negative in negatives):
            raise InvalidError("a negative is the positive")
        if any(reading.same(negative, query) for negative in negatives):
            raise InvalidError("a negative is the query")
        return {"query": query, "positive": positive, "negatives": negatives}

    def _classification(self, found: dict[str, Any], limits: Limits) -> dict[str, Any]:
        text = reading.text(found, "text", limits, self.language)
        label = self._label(reading.text(found, "label", LABEL_LIMITS))
        count = min(self.option.negatives, len(self.task.labels) - 1)
        given = reading.texts(found, "wrong_labels", LABEL_LIMITS, count) if count else []
        wrong = [self._label(each) for each in given]
        if label in wrong:
            raise InvalidError("a wrong label is the right one")
        if len(set(wrong)) < len(wrong):
            raise InvalidError("a wrong label twice")
        return {"query": text, "positive": label, "negatives": wrong}

    def _label(self, given: str) -> str:
        for label in self.task.labels:
            if reading.same(label, given):
                return label
        raise InvalidError("a label that the task does not have")

    def _sts(self, found: dict[str, Any], limits: Limits) -> dict[str, Any]:
        first, second = (
            reading.text(found, name, limits, self.language) for name in ("text1", "text2")
        )
        if reading.same(first, second) and self.score < HIGHEST:
            raise InvalidError("the same text twice, with a lower score than the highest")
        return {"query": first, "positive": second, "score": self.score / HIGHEST}
