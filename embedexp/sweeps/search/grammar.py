"""A search space from Hydra's own sweeps: choice, range, interval, glob, and their tags."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, nearest

from .space import Choice, Parameter, Space, conditions, number, ordered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hydra.core.override_parser.types import Override


def from_overrides(
    overrides: Sequence[str],
    config_dirs: Sequence[str | Path] = (),
    when: Mapping[str, Any] | None = None,
) -> tuple[list[str], Space]:
    """The overrides that all trials share, and the space of the others.

    `a=1,2`, `choice(...)` and `glob(...)` are chosen from; `range(start,stop,step)` keeps Hydra's
    meaning, the stop is not part of it; `interval(low,high)` is a number between, a whole one as
    `int(interval(1,8))`, uniform in the logarithm as `tag(log,interval(1e-5,1e-3))`. A later sweep
    of a key replaces an earlier one. `when` holds conditions: key -> {other key: value or list}.

    Raises:
        UserError: an override can't be parsed, or the space makes no sense.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser

    from embedexp.config.compose import loader
    from embedexp.config.explain import presented

    fixed: list[str] = []
    found: dict[str, Parameter] = {}
    with presented(overrides, config_dirs, sweep=True):
        parser = OverridesParser.create(config_loader=loader(config_dirs))
        parsed = parser.parse_overrides(list(overrides))
    for text, override in zip(overrides, parsed, strict=True):
        if override.is_sweep_override():
            parameter = _parameter(override)
            found[parameter.key] = parameter
        else:
            fixed.append(text)
    for key, condition in (when or {}).items():
        if key not in found:
            best = nearest(str(key), found)
            raise UserError(
                f"hydra.sweeper.when names {key}, which is not searched",
                hint=f"did you mean {best}?" if best else f"searched are: {', '.join(found)}",
            )
        found[key] = replace(found[key], when=conditions(condition, f"hydra.sweeper.when.{key}"))
    return fixed, ordered(list(found.values()))


def _parameter(override: Override) -> Parameter:
    from hydra.core.override_parser.types import IntervalSweep, RangeSweep

    key, value = override.get_key_element(), override.value()
    if isinstance(value, IntervalSweep):
        low, high, tags = value.start, value.end, set(value.tags)
        if unknown := tags - {"log", "int"}:
            name = sorted(unknown)[0]
            raise UserError(
                f"{key}: an interval has no tag {name}", hint="tags that count: log, int"
            )
        if low is None or high is None:
            raise UserError(f"{key}: an interval has two ends", hint="interval(0.01,0.1)")
        whole = "int" in tags or (isinstance(low, int) and isinstance(high, int))
        return number(key, float(low), float(high), log="log" in tags, whole=whole)
    texts = list(override.sweep_string_iterator())
    if isinstance(value, RangeSweep) and not value.shuffle and len(texts) > 1:
        values = sorted(float(text) for text in texts)
        whole = all(isinstance(part, int) for part in (value.start, value.stop, value.step))
        # Hydra's stop is no value of the range; the last one that it reaches is.
        return number(
            key,
            values[0],
            values[-1],
            step=abs(float(value.step)),
            log="log" in value.tags,
            whole=whole,
            values=tuple(values),
        )
    if not texts:
        raise UserError(
            f"{key} has no values to choose from", hint=f"given is {override.input_line}"
        )
    return Choice(key, {text: (f"{key}={text}",) for text in texts})
