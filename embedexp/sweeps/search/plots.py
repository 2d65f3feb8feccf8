"""Pictures of a search: how the objective went, and which keys it depends on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embedexp.drawing import BLUE, GREY, RED, drawn, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from optuna import Study
    from optuna.trial import FrozenTrial

LEAST = 4
"""Complete trials without which nothing can be said about the keys."""
LEAST_BEST = 10
"""Best trials, at least, whose values are compared with all: fewer say more of chance."""
ORANGE = "#c77d1e"


@dataclass(frozen=True)
class Palette:
    """The colours of a drawing."""

    main: str = BLUE
    other: str = ORANGE
    faint: str = GREY
    bad: str = RED


_PICTURE = Palette()


def draw(study: Study, names: Sequence[str], folder: Path) -> list[Path]:
    """Write `history.png`, and `importance.png` where there is something to tell; their paths."""
    history = folder / "history.png"
    draw_history(study, names, history)
    found = importances(study, len(names))
    if not any(one for one in found):
        return [history]
    draw_importance(found, names, folder / "importance.png")
    return [history, folder / "importance.png"]


def draw_history(study: Study, names: Sequence[str], path: Path) -> None:
    """The objective by trial with the best so far; of several, each, and the first two together."""
    count = len(names)
    with drawn(path, (8 if count == 1 else 4.6 * (count + 1), 4.4), study.study_name) as figure:
        columns = count if count == 1 else count + 1
        axes: Any = figure.subplots(1, columns, squeeze=False)[0]
        for index, name in enumerate(names):
            history(axes[index], study, index, name)
        if count > 1:
            front(axes[-1], study, names)


def history(
    axes: Axes, study: Study, index: int, name: str, colours: Palette = _PICTURE, columns: int = 4
) -> None:
    """An objective by trial with the best so far; what was pruned or failed on the lower edge."""
    from matplotlib.ticker import MaxNLocator
    from optuna.study import StudyDirection
    from optuna.trial import TrialState

    trials = study.get_trials(deepcopy=False)
    axes.set(xlabel="trial", ylabel=plain(name))
    axes.grid(alpha=0.25)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    ended = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    if ended:
        numbers = [trial.number for trial in ended]
        values = [trial.values[index] for trial in ended]
        axes.plot(numbers, values, "o", color=colours.main, alpha=0.7, label="complete")
        better = max if study.directions[index] is StudyDirection.MAXIMIZE else min
        best = [better(values[: end + 1]) for end in range(len(values))]
        axes.step(numbers, best, where="post", color=colours.main, linewidth=2, label="best so far")
    for state, colour, label in (
        (TrialState.PRUNED, colours.faint, "pruned"),
        (TrialState.FAIL, colours.bad, "failed"),
    ):
        numbers = [trial.number for trial in trials if trial.state is state]
        if numbers:  # they have no value: marks on the lower edge
            bottom = [0.0] * len(numbers)
            transform = axes.get_xaxis_transform()
            axes.plot(
                numbers, bottom, "x", color=colour, label=label, transform=transform, clip_on=False
            )
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns)


def front(axes: Axes, study: Study, names: Sequence[str], colours: Palette = _PICTURE) -> None:
    """The first two objectives against each other; trials that none beats in both are marked."""
    from optuna.trial import TrialState

    ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    axes.set(xlabel=plain(names[0]), ylabel=plain(names[1]))
    axes.grid(alpha=0.25)
    axes.plot(*_columns(ended), "o", color=colours.faint, alpha=0.7, label="complete")
    best = sorted(study.best_trials, key=lambda trial: trial.values[0])
    axes.plot(*_columns(best), "o-", color=colours.other, label="no other is better in all")
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


def _columns(trials: Sequence[FrozenTrial]) -> tuple[list[float], list[float]]:
    return [trial.values[0] for trial in trials], [trial.values[1] for trial in trials]


def importances(study: Study, objectives: int) -> list[dict[str, dict[str, float]]]:
    """For each objective, shares by evaluator and key that sum to 1; empty where nothing is known.

    fANOVA (Hutter et al., 2014) is the share of the objective's variance that a key explains in a
    random forest; it needs keys that all trials have. PED-ANOVA (Watanabe et al., 2023) asks how
    far the values of the best trials, a tenth but ten where there are, differ from those of all,
    and takes conditional keys, too.
    """
    from optuna import importance
    from optuna.trial import TrialState

    ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    found: list[dict[str, dict[str, float]]] = []
    for index in range(objectives):
        values = [trial.values[index] for trial in ended]
        shares: dict[str, dict[str, float]] = {}
        if len(ended) < LEAST or max(values) == min(values):
            found.append(shares)
            continue
        evaluators = {
            "fANOVA": importance.FanovaImportanceEvaluator(seed=0),
            "PED-ANOVA": importance.PedAnovaImportanceEvaluator(
                target_quantile=max(0.1, min(0.5, LEAST_BEST / len(ended)))
            ),
        }
        for name, evaluator in evaluators.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    shares[name] = importance.get_param_importances(
                        study,
                        evaluator=evaluator,
                        target=None if objectives == 1 else _value(index),
                    )
            except (ValueError, RuntimeError, ImportError):
                continue  # such as no key in all trials: the other evaluator may know
        found.append({name: share for name, share in shares.items() if sum(share.values()) > 0})
    return found


def _value(index: int) -> Callable[[FrozenTrial], float]:
    return lambda trial: float(trial.values[index])


def draw_importance(
    found: Sequence[dict[str, dict[str, float]]], names: Sequence[str], path: Path
) -> None:
    """A bar for each key and evaluator."""
    keys = list(dict.fromkeys(key for one in found for shares in one.values() for key in shares))
    size = (6.5 * len(names), 1.8 + 0.55 * len(keys))
    with drawn(path, size, "Importance of the keys") as figure:
        axes: Any = figure.subplots(1, len(names), squeeze=False)[0]
        for one, name, place in zip(found, names, axes, strict=True):
            place.set(title=plain(name))
            importance(place, one, keys)


def importance(
    axes: Axes,
    found: Mapping[str, Mapping[str, float]],
    keys: Sequence[str],
    colours: Palette = _PICTURE,
) -> None:
    """A bar for each key and evaluator, the most important key on top."""
    axes.set(xlabel="share", xlim=(0, 1.08), axisbelow=True)
    axes.grid(axis="x", alpha=0.25)
    # By whoever knows of all of them.
    order = sorted(keys, key=lambda key: max(s.get(key, 0.0) for s in found.values() or [{}]))
    bars = ((0.19, colours.main, "fANOVA"), (-0.19, colours.other, "PED-ANOVA"))
    for shift, colour, evaluator in bars:
        shares = found.get(evaluator)
        if shares is None:
            continue
        rows = [row + shift for row, key in enumerate(order) if key in shares]
        widths = [shares[key] for key in order if key in shares]
        axes.barh(rows, widths, height=0.36, color=colour, label=evaluator)
        for row, width in zip(rows, widths, strict=True):
            axes.text(width + 0.01, row, f"{width:.2f}", va="center", fontsize=8)
    axes.set_yticks(range(len(order)), [plain(key) for key in order])
    axes.legend(frameon=False, loc="lower right")
