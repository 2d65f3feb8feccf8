"""What the stages share that ask generators: the work, its counts, its report."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp import data
from embedexp.config.errors import UserError
from embedexp.config.schema.generate import FromData
from embedexp.generation import writing
from embedexp.generation.work import Outcome, Question, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from embedexp.config import Config
    from embedexp.config.schema.generate import Generating
    from embedexp.runs import RunDirectory
    from embedexp.training.interrupt import StopRequest

    from .screen import Screen

FOLDER = "generated"
LANGUAGE = "data.columns.language=language"
"""The override with which `data=jsonl` reads the language that every example has."""


def work(option: Generating, config: Config, directory: RunDirectory, stop: StopRequest) -> Work:
    """The work of a run.

    Raises:
        UserError: the package openai is not installed, or a key is not in the environment.
    """
    try:
        import openai  # noqa: F401
    except ImportError:
        raise UserError(
            "asking generators needs the package openai",
            hint="pip install embedexp[generate]",
        ) from None

    def on_progress(done: int, total: int, left: float | None) -> None:
        directory.update(
            step=done, total_steps=total, eta_seconds=left, message="asking generators"
        )

    return Work(
        option,
        config.seed,
        directory.path / FOLDER,
        Path(config.paths.cache) / "generated",
        stop.check,
        on_progress,
    )


def from_rows(
    config: Config,
    directory: RunDirectory,
    stop: StopRequest,
    screen: Screen,
    *,
    questions: Callable[[data.Corpus], Iterable[Question]],
    distinct: Sequence[Sequence[str]],
    as_they_are: Callable[[data.Corpus], Iterable[dict[str, Any]]] = lambda _: (),
) -> None:
    """Ask about the rows of the data; leave `generated/examples.jsonl` and a report.

    `questions` and `as_they_are` are made of the data; as in `finish` otherwise.

    Raises:
        UserError: the budget is used up, an endpoint does not answer, or nothing valid came.
    """
    option = config.stage
    assert isinstance(option, FromData)
    asked = work(option, config, directory, stop)
    corpus = data.load(config.data, config.paths.cache)
    finish(
        asked,
        lambda: questions(corpus),
        directory,
        screen,
        distinct=distinct,
        shares=option.languages,
        task="retrieval",
        columns=[LANGUAGE],
        as_they_are=as_they_are(corpus),
    )


def finish(
    asked: Work,
    questions: Callable[[], Iterable[Question]],
    directory: RunDirectory,
    screen: Screen,
    *,
    distinct: Sequence[Sequence[str]],
    shares: Mapping[str, float],
    task: str,
    columns: Sequence[str],
    as_they_are: Iterable[dict[str, Any]] = (),
) -> None:
    """Ask, then write examples and report.

    `distinct` as in `writing.write`; `columns` are overrides that tell `data=jsonl` more than
    `query` and `positive`. `as_they_are` are examples for which nobody is asked; they come first.

    Raises:
        UserError: not one example is left, besides those of `Work.ask`.
    """
    asked.ask(questions, "asking")
    folder = directory.path / FOLDER
    path = folder / writing.EXAMPLES
    outcomes = chain(_known(as_they_are), asked.outcomes(questions()))
    counts = writing.write(path, outcomes, distinct)
    how = ["python -m embedexp data=jsonl \\", f"  data.path={path} data.task={task}"]
    how += [f"  {override}" for override in columns]
    how[1:] = [line + " \\" for line in how[1:-1]] + how[-1:]
    writing.report(folder, counts, asked, shares, how, directory.name)
    for line in writing.words(counts):
        screen.say(f"  {line}")
    screen.say(f"examples {path}")
    screen.say(f"report   {folder / writing.PAGE}")
    if not counts.kept:
        raise UserError(
            "not one example is valid",
            where=str(folder / writing.REPORT),
            hint="look at its reasons; mend the prompt, or take another model",
        )


def _known(examples: Iterable[dict[str, Any]]) -> Iterator[Outcome]:
    def read(_: object) -> dict[str, Any]:
        raise AssertionError("nobody is asked")

    for example in examples:
        yield Outcome(Question("", "none", "", read), example, ())
