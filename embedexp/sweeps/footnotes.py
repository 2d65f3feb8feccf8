"""What a reader must know to trust the table: how our figures were made, and what is missing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from embedexp.evaluation.paired import CONFIDENCE
from embedexp.runs import State
from embedexp.runs.text import plain

from .cells import JOIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .planning import PlannedRun, SweepPlan
    from .schema import Entry as Label
    from .table import Entry

_VERSIONS = ("embedexp", "torch", "transformers", "sentence-transformers", "mteb")
_SHORT = 12
_MOST = 4


def footnotes(plan: SweepPlan, entries: Mapping[tuple[str, str, str], Entry]) -> Iterator[str]:
    """The footnotes, in a fixed order; nothing in them depends on when they are made."""
    yield from _reading(plan, entries)
    yield from _scale(plan)
    yield from _missing(entries)
    yield from _same(plan, entries)
    finished = [run for _, run in plan.cells if run.directory.status.state is State.FINISHED]
    if finished:
        yield from _settings(finished)
        yield from _provenance(finished)
    if plan.sweep.published is not None:
        yield "Published figures: " + "; ".join(plan.sweep.published.source) + "."
    yield from plan.sweep.footnotes


def _reading(plan: SweepPlan, entries: Mapping[tuple[str, str, str], Entry]) -> Iterator[str]:
    counts = sorted({entry.ours.count for entry in entries.values() if entry.ours is not None})
    if counts and counts[-1] > 1:
        seeds = " or ".join(str(count) for count in counts)
        yield (
            f"Ours: mean over {seeds} seeds ± half of the {CONFIDENCE:.0%} interval (Student's t)"
            f"{', none where seeds do not vary' if _constant(entries) else ''}; scores in points."
        )
    elif counts:
        yield "Ours: one seed, so no interval and no verdict; scores in points."
    relative = plan.sweep.published.difference_to if plan.sweep.published else None
    if relative is not None:
        yield f"All figures are differences to the row {relative}, as printed in the paper."
    for name, measure in plan.sweep.measures_at(demo=plan.scope.demo).items():
        if measure.figure is not None:
            told = f"{measure.figure.key} in {measure.figure.file}"
        else:
            tasks = next(
                (e.tasks for place, e in entries.items() if place[2] == name and e.tasks), ()
            )
            if not tasks:
                continue
            over = "mean over types of" if measure.average == "types" and len(tasks) > 1 else (
                "mean over" if len(tasks) > 1 else "score of"
            )  # fmt: skip
            told = f"{over} {', '.join(tasks)}, {measure.phase} training"
        yield f"{name}: {told}" + (" (lower is better)." if measure.better == "lower" else ".")
    for row, phase in dict.fromkeys((cell.row, cell.phase) for cell, _ in plan.cells):
        if phase is not None:
            yield f"The row {row} shows scores {phase} training."
    yield (
        "Tests are two-sided at 5% on values per seed (each a mean over tasks), uncorrected for "
        "their number."
    )


def _constant(entries: Mapping[tuple[str, str, str], Entry]) -> bool:
    """Whether a cell's seeds all gave the same."""
    every = [entry.ours for entry in entries.values() if entry.ours is not None]
    return any(one.count > 1 and one.half is None for one in every)


def _scale(plan: SweepPlan) -> Iterator[str]:
    if not plan.scope.demo:
        return
    yield (
        "scale=demo: other tasks and data, smaller models, fewer steps (see the group scale), so "
        "only directions can be compared with the paper's."
    )
    axes: list[tuple[str, Mapping[str, Label]]] = [
        ("", plan.sweep.rows),
        ("", plan.sweep.columns),
        *plan.sweep.axes.items(),
    ]
    told = [
        f"{label} stands for {' '.join(entry.demo) or 'no override'}"
        for _, labels in axes
        for label, entry in labels.items()
        if entry.demo is not None
    ]
    if told:
        yield f"At scale=demo {'; '.join(told)}."


def _missing(entries: Mapping[tuple[str, str, str], Entry]) -> Iterator[str]:
    by_reason: dict[str, dict[str, set[str]]] = {}
    measures = {measure for _, _, measure in entries}
    for (row, column, measure), entry in entries.items():
        for seed, reason in entry.missing.items():
            place = JOIN.join(part for part in (row, column, f"seed {seed}") if part)
            by_reason.setdefault(plain(reason), {}).setdefault(place, set()).add(measure)
    for reason, places in by_reason.items():
        told = [
            place if found == measures else f"{place}: {', '.join(sorted(found))}"
            for place, found in places.items()
        ]
        yield f"Missing: {'; '.join(told)}. Reason: {reason}."


def _same(plan: SweepPlan, entries: Mapping[tuple[str, str, str], Entry]) -> Iterator[str]:
    """Cells that were run apart and yet have the same scores, to the last digit."""
    runs: dict[tuple[str, str], list[str]] = {}
    for cell, run in plan.cells:
        runs.setdefault((cell.row, cell.column), []).append(f"{run.config.run_name} {cell.phase}")
    values: dict[tuple[str, str], list[tuple[str, int, float]]] = {}
    for (row, column, measure), entry in entries.items():
        found = [(measure, seed, value) for seed, value in sorted(entry.values.items())]
        values.setdefault((row, column), []).extend(found)
    equal: dict[tuple[tuple[str, int, float], ...], list[tuple[str, str]]] = {}
    for place, found in values.items():
        if found:
            equal.setdefault(tuple(found), []).append(place)
    for places in equal.values():
        if len({tuple(runs[place]) for place in places}) > 1:
            told = " and ".join(JOIN.join(part for part in place if part) for place in places)
            yield (
                f"{told} have the same scores to the last digit: what sets them apart has "
                "changed nothing here."
            )


def _settings(runs: Sequence[PlannedRun]) -> Iterator[str]:
    """Prompts, lengths, precision and widths with which our figures were measured."""
    prompts, lengths, precision, width = [], [], [], []
    for run in runs:
        config, file = run.config, _settings_file(run)
        embedding = file.get("embedding") or (
            config.embedding.model_dump() if "embedding" in config.stage.uses else {}
        )
        if not embedding:
            continue
        prompts.append(_prompts(embedding.get("prompts", {})))
        lengths.append(f"{embedding['query_tokens']} / {embedding['document_tokens']}")
        width.append(str(embedding.get("width") or "all"))
        trained = config.training.precision if "training" in config.stage.uses else ""
        kinds = ", ".join(file.get("dtype", []))
        precision.append(" weights, trained in ".join(part for part in (kinds, trained) if part))
    if not prompts:
        return
    yield (
        f"Prompts: {_distinct(prompts)}. Query / document tokens: {_distinct(lengths)}. "
        f"Dimensions: {_distinct(width)}. Precision: {_distinct(precision)}."
    )


def _prompts(prompts: Mapping[str, Any]) -> str:
    told = [
        f"{name} {json.dumps(text, ensure_ascii=False)}" for name, text in prompts.items() if text
    ]
    return ", ".join(told) or "none"


def _settings_file(run: PlannedRun) -> dict[str, Any]:
    try:
        content = json.loads(run.directory.scores_file.read_bytes())["settings"]
    except (OSError, ValueError, TypeError, KeyError):
        return {}
    return dict(content) if isinstance(content, dict) else {}


def _provenance(runs: Sequence[PlannedRun]) -> Iterator[str]:
    """Data, software and machine, as the runs have written them down."""
    data, versions, code, machine = [], [], [], []
    for run in runs:
        try:
            found = json.loads(run.directory.environment_file.read_bytes())
        except (OSError, ValueError):
            continue
        if found.get("data_fingerprint"):
            data.append(found["data_fingerprint"][:_SHORT])
        packages = found.get("packages", {})
        versions.append(", ".join(f"{n} {packages[n]}" for n in _VERSIONS if n in packages))
        commit = (found.get("code") or {}).get("commit")
        code.append(str(commit)[:_SHORT] if commit else "")
        hardware = found.get("hardware", {})
        gpus = hardware.get("gpus")
        machine.append(", ".join(gpus) if gpus else f"{hardware.get('cores')} CPU cores")
    parts = {
        "Data fingerprint": _distinct(data),
        "Software": _distinct(versions),
        "Code": _distinct(code),
        "Machine": _distinct(machine),
    }
    told = ". ".join(f"{name}: {text}" for name, text in parts.items() if text)
    if told:
        yield f"{told}."
    # Cells may share a run, which was computed once.
    once = {run.config.signature: run.directory.status.seconds for run in runs}
    yield f"Seconds of all shown runs: {sum(once.values()):.0f}."


def _distinct(texts: Sequence[str]) -> str:
    """The different texts, first come first; no more than a few."""
    found = list(dict.fromkeys(text for text in texts if text))
    more = f" and {len(found) - _MOST} others" if len(found) > _MOST else ""
    return " | ".join(found[:_MOST]) + more
