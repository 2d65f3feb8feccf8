"""A sweep as Weights & Biases has it: its configuration, and the cell that its agent asks for.

W&B fills `${args_no_hyphens}` with `name=value` for each parameter. Where every value is one
override, these are Hydra's own overrides; labels that stand for several overrides, conditions and
combinations that are left out go through `python -m embedexp cell FILE name=label ...`.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, nearest

from .cells import Cell, cells, key_of, only
from .search.checks import require_comparable
from .search.objective import LOSS, MEAN, SECONDS
from .search.settings import REDUCTION
from .search.space import Choice, Number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .schema import Entry, Sweep
    from .search.settings import SearchSettings
    from .search.space import Parameter, Space

CELL, SEED = "cell", "seed"
_START = ["${env}", "python", "-m", "embedexp"]
_ARGUMENTS = "${args_no_hyphens}"
# W&B has three methods; samplers that learn from what they have seen are its Bayesian one.
_METHODS = {"random": "random", "qmc": "random", "tpe": "bayes", "gp": "bayes"}


def config(
    sweep: Sweep, file: str, typed: Sequence[str] = (), seeds: Sequence[int] | None = None
) -> dict[str, Any]:
    """The configuration of a table's sweep: a grid over its axes, and over the seeds.

    Args:
        sweep: The file's content.
        file: The file, as its agents will find it.
        typed: Further overrides of all runs.
        seeds: These seeds in the place of the file's.
    """
    if seeds is not None:
        sweep = sweep.model_copy(update={"seeds": list(seeds)})
    found = cells(sweep)
    plain = _plain_parameters(sweep)
    set_already = {key_of(text) for text in (*sweep.base, *typed)}
    # Hydra takes the option of a group only once.
    if plain is not None and not set_already & {key_of(key) for key in plain}:
        parameters = plain | {SEED: {"values": list(sweep.seeds)}}
        command = [*_START, *sweep.base, *typed, _ARGUMENTS]
    else:
        parameters = _label_parameters(found)
        command = [*_START, CELL, file, *typed, _ARGUMENTS]
    made: dict[str, Any] = {"name": sweep.title, "description": sweep.question, "method": "grid"}
    metric = _metric_of(sweep)
    if metric is not None:
        made["metric"] = metric
    return made | {"parameters": parameters, "command": command}


def search_config(
    title: str,
    question: str,
    base: Sequence[str],
    space: Space,
    settings: SearchSettings,
    file: str,
    typed: Sequence[str] = (),
) -> dict[str, Any]:
    """The configuration of a search: distributions, the objective, and when bad runs end.

    W&B draws conditional keys always; `cell` drops those whose condition does not hold.

    Raises:
        UserError: W&B has no such search, or trials can't be compared.
    """
    require_comparable(settings, space)
    if len(settings.objectives) > 1:
        raise UserError(
            "a W&B sweep has one objective", hint="name one: hydra.sweeper.objective=mean"
        )
    method = _METHODS.get(settings.sampler)
    if method is None:
        raise UserError(
            f"W&B has no sampler like {settings.sampler}",
            hint="hydra.sweeper.sampler=tpe becomes its bayes, random its random",
        )
    if settings.seeds is not None:
        raise UserError(
            "a W&B sweep can't take the mean over seeds in each trial",
            hint="leave hydra.sweeper.seeds out",
        )
    ((name, direction),) = settings.objectives
    if name == SECONDS:
        raise UserError("W&B knows no objective seconds", hint="use mean, a task, or loss")
    metric = {"name": LOSS if name == LOSS else f"scores/{name}", "goal": direction}
    given = {key_of(text) for text in (*base, *typed)}
    plain = not space.conditional and not given & {key_of(key) for key in space.keys}
    plain = plain and all(_is_plain(one) for one in space.parameters)
    made: dict[str, Any] = {
        "name": title,
        "description": question,
        "method": method,
        "metric": metric,
        "run_cap": settings.trials,
    }
    if settings.pruner is not None:
        made["early_terminate"] = _early_terminate(settings, name)
    made["parameters"] = {one.key: _distribution(one) for one in space.parameters}
    start = [*base] if plain else [CELL, file]
    return made | {"command": [*_START, *start, *typed, _ARGUMENTS]}


def overrides_of_trial(space: Space, given: Mapping[str, str]) -> list[str]:
    """The overrides that the values of an agent stand for; those without effect are left out.

    Raises:
        UserError: a key or label is not the space's, or a key is missing.
    """
    for key in given:
        if key not in space.keys:
            best = nearest(key, space.keys)
            raise UserError(
                f"{key} is not searched" + (f"; did you mean {best}?" if best else ""),
                hint=f"searched are: {', '.join(space.keys)}",
            )
    found: list[str] = []
    chosen: dict[str, str] = {}
    for one in space.parameters:
        if not all(chosen.get(key) in labels for key, labels in one.when.items()):
            continue
        if one.key not in given:
            raise UserError(f"{one.key} has no value", hint=f"add {one.key}=VALUE")
        label = chosen[one.key] = given[one.key]
        if isinstance(one, Number):
            found.append(f"{one.key}={label}")
        elif label in one.options:
            found += one.options[label]
        else:
            best = nearest(label, one.options)
            raise UserError(
                f"{one.key} has no value {label}" + (f"; did you mean {best}?" if best else ""),
                hint=f"its values: {', '.join(one.options)}",
            )
    return found


def chosen_cell(sweep: Sweep, given: Mapping[str, str]) -> Cell:
    """The cell that an agent's labels and seed name.

    Raises:
        UserError: they name none, or several.
    """
    try:
        seed = int(given.get(SEED, sweep.seeds[0]))
    except ValueError:
        raise UserError(f"seed={given[SEED]} is no seed", hint="a whole number") from None
    found = cells(sweep.model_copy(update={"seeds": [seed]}))
    labels = {key: value for key, value in given.items() if key != SEED}
    axes = list(dict.fromkeys(axis for cell in found for axis, _ in cell.labels))
    for axis in labels:
        if axis not in (CELL, *axes):
            best = nearest(axis, [CELL, *axes, SEED])
            raise UserError(
                f"the sweep has no axis {axis!r}" + (f"; did you mean {best}?" if best else ""),
                hint=f"axes: {', '.join(axes)}; or cell=NAME",
            )
    for axis, label in labels.items():
        known = [c.name if axis == CELL else dict(c.labels).get(axis, "") for c in found]
        if label not in known:
            only(found, [label])  # says what there is
            raise UserError(f"{axis} has no label {label!r}")
        found = [cell for cell, value in zip(found, known, strict=True) if value == label]
    if len(found) != 1:
        told = " ".join(f"{axis}={label}" for axis, label in labels.items()) or "nothing"
        missing = ", ".join(axis for axis in axes if axis not in labels)
        raise UserError(
            f"{len(found)} cells fit {told}",
            hint=f"name a label of each axis: {missing}" if found else "these labels never meet",
        )
    return found[0]


def _plain_parameters(sweep: Sweep) -> dict[str, Any] | None:
    """Hydra's keys with their values, if each label of an axis is one override of one key."""
    if sweep.mode != "grid" or sweep.include or sweep.exclude or sweep.stages or sweep.demo.base:
        return None
    found: dict[str, Any] = {}
    for axis in _axes(sweep):
        pairs = [_single(entry) for entry in axis.values()]
        keys = {pair[0] for pair in pairs if pair is not None}
        if None in pairs or len(keys) != 1 or keys & set(found):
            return None
        found[keys.pop()] = {"values": [_value(pair[1]) for pair in pairs if pair is not None]}
    return found


def _axes(sweep: Sweep) -> list[dict[str, Entry]]:
    return [axis for axis in (sweep.rows, sweep.columns, *sweep.axes.values()) if axis]


def _single(entry: Entry) -> tuple[str, str] | None:
    other = (entry.stages, entry.only, entry.show, entry.phase)
    if len(entry.full) != 1 or entry.demo is not None or any(other):
        return None
    if entry.full[0].startswith("~"):
        return None
    key, _, value = entry.full[0].partition("=")
    return key, value


def _label_parameters(found: Sequence[Cell]) -> dict[str, Any]:
    """The labels by axis where all combinations are there, else the cells by name."""
    seeds = list(dict.fromkeys(cell.seed for cell in found))
    axes: dict[str, list[str]] = {}
    for cell in found:
        for axis, label in cell.labels:
            if label not in axes.setdefault(axis, []):
                axes[axis].append(label)
    there = {cell.labels for cell in found}
    combinations = {tuple(zip(axes, labels, strict=True)) for labels in product(*axes.values())}
    if combinations != there:
        axes = {CELL: list(dict.fromkeys(cell.name for cell in found))}
    return {name: {"values": labels} for name, labels in axes.items()} | {SEED: {"values": seeds}}


def _metric_of(sweep: Sweep) -> dict[str, str] | None:
    """What W&B is to show of a table: its first measure, where a run sends it there."""
    measure = next(iter(sweep.all_measures.values()))
    if measure.figure or measure.types or measure.benchmark or measure.average != "tasks":
        return None
    tasks = measure.tasks or [MEAN]
    if len(tasks) > 1 or measure.phase != "after":
        return None
    goal = "maximize" if measure.better == "higher" else "minimize"
    return {"name": f"scores/{tasks[0]}", "goal": goal}


def _is_plain(one: Parameter) -> bool:
    """Whether a value of the parameter is the value of its key."""
    return isinstance(one, Number) or all(
        texts == (f"{one.key}={label}",) for label, texts in one.options.items()
    )


def _distribution(one: Parameter) -> dict[str, Any]:
    """A parameter as W&B's schema has it; its ends are included in both."""
    if isinstance(one, Choice):
        return {"values": [_value(label) for label in one.options]}
    if one.values:
        return {"values": [int(value) if one.whole else value for value in one.values]}
    low, high = (int(one.low), int(one.high)) if one.whole else (one.low, one.high)
    if one.whole and one.log:
        return {"distribution": "q_log_uniform_values", "min": low, "max": high, "q": 1}
    if one.log:
        return {"distribution": "log_uniform_values", "min": low, "max": high}
    if one.step is not None and one.step != 1:
        # W&B rounds to multiples of q wherever the interval begins; the values can't go wrong.
        count = int((one.high - one.low) / one.step + 1e-9) + 1
        steps = [one.low + position * one.step for position in range(count)]
        return {"values": [int(value) if one.whole else round(value, 12) for value in steps]}
    return {"distribution": "int_uniform" if one.whole else "uniform", "min": low, "max": high}


def _early_terminate(settings: SearchSettings, objective: str) -> dict[str, Any]:
    """Hyperband, which W&B bases on how often the metric was logged, not on steps."""
    if objective != LOSS:
        raise UserError(
            f"W&B can't end runs early by {objective}, which is there only at their end",
            hint="drop hydra.sweeper.pruner, or hydra.sweeper.objective=loss",
        )
    if settings.pruner == "median":
        raise UserError("W&B has no median pruner", hint="hydra.sweeper.pruner=hyperband")
    eta = settings.reduction or REDUCTION
    return {"type": "hyperband", "min_iter": settings.prune_every or 10, "eta": eta}


def _value(text: str) -> Any:
    """A number where that is what the text says and nothing is lost, else the text."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text:
            return number
    return text
