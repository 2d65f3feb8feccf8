"""evaluation=mteb: public benchmarks and tasks, whose data mteb fetches from the hub."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import mteb
from mteb.abstasks.aggregated_task import AbsTaskAggregate

from embedexp.config import catalogue
from embedexp.config.errors import UserError, nearest

from . import engine
from .sharing import cost, shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from embedexp.config.schema.evaluation import MtebEvaluation
    from embedexp.data.dataset import Dataset

    from .encoder import Embedder
    from .scores import Phase, Score


def evaluate(
    embedder: Embedder,
    option: MtebEvaluation,
    *,
    heldout: Sequence[Dataset] = (),
    on_task: Callable[[Score], None] | None = None,
    output: Path | None = None,
    phase: Phase = "after",
    done: Sequence[Score] = (),
) -> list[Score]:
    """See `embedexp.evaluation.evaluate`; what data keeps out of training plays no part."""
    asked = part(tasks(option), option)
    return engine.run(
        embedder,
        [partial(_itself, task) for task in asked],
        sizes={},
        on_task=on_task,
        output=output,
        phase=phase,
        done=done,
        keep=False,
    )


def _itself(task: mteb.AbsTask) -> mteb.AbsTask:
    return task


def part(asked: Sequence[mteb.AbsTask], option: MtebEvaluation) -> list[mteb.AbsTask]:
    """The tasks of the option's shard, in their order; all of them without one."""
    if option.shard is None:
        return list(asked)
    mine = shares([cost(task) for task in asked], option.shards)[option.shard]
    return [asked[i] for i in mine]


def tasks(option: MtebEvaluation) -> list[mteb.AbsTask]:
    """The tasks that an option asks for, each once, with the splits and subsets that count.

    A benchmark chooses them as mteb does: MTEB(eng, v2) takes the English part of STS22.v2.

    Raises:
        UserError: a name is unknown, nothing is left, or a task is asked for in two forms.
    """
    found: dict[str, mteb.AbsTask] = {}
    for task in _named(option):
        name = task.metadata.name
        if name in option.exclude or (option.types and task.metadata.type not in option.types):
            continue
        if option.languages and not _spoken(task, option.languages):
            continue
        if set(task.metadata.modalities) != {"text"}:
            raise UserError(
                f"{name} is no task about texts alone",
                where="evaluation",
                hint=f"leave it out: evaluation.exclude=[{name}]",
            )
        other = found.setdefault(name, task)
        if _form(other) != _form(task):
            raise UserError(
                f"{name} is asked for twice, with different splits or subsets",
                where="evaluation.benchmarks and evaluation.tasks",
                hint="measure the two in runs of their own",
            )
    if not found:
        raise UserError(
            "no task is left to measure",
            where="evaluation",
            hint="name benchmarks or tasks, and see that types, languages and exclude leave some",
        )
    return list(found.values())


def _named(option: MtebEvaluation) -> Iterable[mteb.AbsTask]:
    """The tasks of the benchmarks, then the single ones; copies, for mteb's own are shared."""
    for name in option.benchmarks:
        if name in catalogue.USUAL_TASKS:
            yield from (_task(each) for each in catalogue.USUAL_TASKS[name])
        else:
            yield from (copy.copy(task) for task in _benchmark(name).tasks)
    for text in option.tasks:
        wanted = catalogue.parse(text)
        yield _task(wanted.name, wanted.subsets)


def _benchmark(name: str) -> Any:
    from mteb.benchmarks.get_benchmark import get_benchmarks

    canonical = catalogue.canonical(name)
    try:
        return mteb.get_benchmark(canonical)
    except KeyError:
        names = [*catalogue.USUAL_TASKS, *(each.name for each in get_benchmarks())]
        raise _unknown("benchmark", name, names) from None


def _task(name: str, subsets: Sequence[str] = ()) -> mteb.AbsTask:
    """A new task, with all its subsets or those named."""
    try:
        task = mteb.get_task(name)
    except KeyError:
        from mteb.get_tasks import TASK_LIST

        names = [each.metadata.name for each in TASK_LIST]
        raise _unknown("task", name, names) from None
    for subset in subsets:
        if subset not in task.hf_subsets:
            raise _unknown(f"subset of {name}", subset, task.hf_subsets)
    if subsets:
        task.hf_subsets = [subset for subset in task.hf_subsets if subset in subsets]
    return task


def _unknown(kind: str, word: str, words: Iterable[str]) -> UserError:
    words = list(words)
    close = nearest(word, words)
    hint = f"did you mean {close}?" if close else f"choose from: {', '.join(sorted(words)[:12])}"
    return UserError(f"mteb {mteb.__version__} has no {kind} {word}", where="evaluation", hint=hint)


def _spoken(task: mteb.AbsTask, languages: Sequence[str]) -> bool:
    """Keep the subsets in which one of the languages takes part; whether there are any."""
    try:
        # Within the subsets it has: without them mteb would bring back those a benchmark left out.
        task.filter_languages(list(languages), hf_subsets=list(task.hf_subsets))
    except ValueError:
        return False
    return True


def _form(task: mteb.AbsTask) -> tuple[list[str], list[str]]:
    if isinstance(task, AbsTaskAggregate):
        return [], []
    return sorted(task.eval_splits), sorted(task.hf_subsets)
