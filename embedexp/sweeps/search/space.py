"""The space that is searched: which keys, which values, and under which conditions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, nearest, shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.trial import BaseTrial

When = dict[str, tuple[str, ...]]
"""Key -> the labels of which one must have been chosen."""


@dataclass(frozen=True)
class Choice:
    """One of several labels, each of which stands for a list of overrides."""

    key: str
    options: dict[str, tuple[str, ...]]
    when: When = field(default_factory=dict)

    def suggest(self, trial: BaseTrial) -> tuple[str, tuple[str, ...]]:
        """The chosen label and its overrides."""
        label = str(trial.suggest_categorical(self.key, list(self.options)))
        return label, self.options[label]


@dataclass(frozen=True)
class Number:
    """A number from `low` to `high`, both included; with `log`, uniform in its logarithm.

    `values` are those that `step` reaches, where the user has listed them as a range: what is
    chosen is one of them to the last bit.
    """

    key: str
    low: float
    high: float
    step: float | None = None
    log: bool = False
    whole: bool = False
    values: tuple[float, ...] = ()
    when: When = field(default_factory=dict)

    def suggest(self, trial: BaseTrial) -> tuple[str, tuple[str, ...]]:
        """The chosen number as text, and the override that sets it."""
        if self.whole:
            step = 1 if self.step is None else int(self.step)
            low, high = int(self.low), int(self.high)
            text = str(trial.suggest_int(self.key, low, high, step=step, log=self.log))
        else:
            number = trial.suggest_float(
                self.key, self.low, self.high, step=self.step, log=self.log
            )
            if self.values:
                number = min(self.values, key=lambda value: abs(value - number))
            text = repr(number)
        return text, (f"{self.key}={text}",)


Parameter = Choice | Number


@dataclass(frozen=True)
class Space:
    """Parameters in an order in which each stands after those that its condition names."""

    parameters: tuple[Parameter, ...]

    def suggest(self, trial: BaseTrial) -> list[str]:
        """The overrides of a trial; a parameter whose condition is not met is not asked for."""
        chosen: dict[str, str] = {}
        overrides: list[str] = []
        for parameter in self.parameters:
            if all(chosen.get(key) in labels for key, labels in parameter.when.items()):
                chosen[parameter.key], found = parameter.suggest(trial)
                overrides += found
        return overrides

    @property
    def conditional(self) -> bool:
        """Whether some trials lack parameters that others have."""
        return any(parameter.when for parameter in self.parameters)

    @property
    def keys(self) -> list[str]:
        """Names of the parameters."""
        return [parameter.key for parameter in self.parameters]

    def touched(self) -> list[str]:
        """All keys and groups that trials may set, without Hydra's prefixes."""
        found: list[str] = []
        for parameter in self.parameters:
            texts = (
                [text for texts in parameter.options.values() for text in texts]
                if isinstance(parameter, Choice)
                else [f"{parameter.key}="]
            )
            found += [text.lstrip("+~").partition("=")[0].partition("@")[0] for text in texts]
        return list(dict.fromkeys(found))


def number(
    key: str,
    low: float,
    high: float,
    *,
    step: float | None = None,
    log: bool = False,
    whole: bool = False,
    values: tuple[float, ...] = (),
    when: When | None = None,
) -> Number:
    """A checked `Number`.

    Raises:
        UserError: its bounds, or what is asked of them, make no sense.
    """
    told = f"{key} from {low:g} to {high:g}"
    if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
        raise UserError(f"{told} is no interval", hint="the lower end comes first")
    if log and low <= 0:
        raise UserError(f"{told} has no logarithm", hint="start above 0, or drop log")
    if log and step is not None and not (whole and step == 1):
        raise UserError(f"{told} has both log and a step", hint="drop one of them")
    if step is not None and not 0 < step <= high - low:
        raise UserError(f"{told} has no second value at steps of {step:g}", hint="a smaller step")
    if whole and any(bound != int(bound) for bound in (low, high, step or 1)):
        raise UserError(f"{told} is to be whole, but its bounds or steps are not")
    return Number(key, low, high, step, log, whole, values, when or {})


def ordered(parameters: Sequence[Parameter]) -> Space:
    """The space of `parameters`, each after those that its condition names.

    Raises:
        UserError: two have one key, a condition names what is not chosen from, or `seed` is among
            the keys.
    """
    if not parameters:
        raise UserError(
            "nothing is searched: no key has several values",
            hint="such as loss.temperature=interval(0.01,0.1) routing=dense,moe",
        )
    known: dict[str, Parameter] = {}
    for parameter in parameters:
        if parameter.key in known:
            raise UserError(f"{parameter.key} is searched twice", hint="name it once")
        known[parameter.key] = parameter
    if "seed" in known:
        raise UserError(
            "a search over seed finds a lucky one, not a good setting",
            hint="hydra.sweeper.seeds=[0,1,2] takes the mean over seeds in each trial",
        )
    for parameter in parameters:
        for key, labels in parameter.when.items():
            _require_condition(parameter, key, labels, known)
    placed: dict[str, Parameter] = {}
    while len(placed) < len(known):
        ready = [p for p in parameters if p.key not in placed and set(p.when) <= set(placed)]
        if not ready:
            names = ", ".join(key for key in known if key not in placed)
            raise UserError(f"the conditions of {names} wait for each other")
        placed |= {p.key: p for p in ready}
    return Space(tuple(placed.values()))


def _require_condition(
    parameter: Parameter, key: str, labels: tuple[str, ...], known: Mapping[str, Parameter]
) -> None:
    other = known.get(key)
    if other is None:
        best = nearest(key, known)
        raise UserError(
            f"{parameter.key} is searched when {key} has a value, but {key} is not searched",
            hint=f"did you mean {best}?" if best else f"searched are: {', '.join(known)}",
        )
    if not isinstance(other, Choice):
        raise UserError(
            f"{parameter.key} is searched when {key} has a value, but {key} is a number",
            hint="conditions name keys that are chosen from a list",
        )
    for label in labels:
        if label not in other.options:
            best = nearest(label, other.options)
            raise UserError(
                f"{parameter.key} is searched when {key}={shorten(label, 40)}, which it never is",
                hint=f"did you mean {best}?" if best else f"it is: {', '.join(other.options)}",
            )


def conditions(given: Any, where: str) -> When:
    """A condition as written: key -> a value, or a list of them.

    Raises:
        UserError: it has another form.
    """
    if not isinstance(given, dict) or not given:
        raise UserError(f"{where}: {shorten(given, 60)}", hint="a condition is {KEY: VALUE}")
    return {
        str(key): tuple(text_of(v) for v in (value if isinstance(value, list) else [value]))
        for key, value in given.items()
    }


def text_of(value: Any) -> str:
    """A value of YAML as Hydra's overrides spell it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(text_of(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key}:{text_of(item)}' for key, item in value.items())}}}"
    return str(value)
