"""Any exception of composing an experiment, as an error of at most three lines."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UserError, closest, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hydra.core.override_parser.types import Override
    from omegaconf.errors import OmegaConfBaseException
    from yaml import MarkedYAMLError

    from .lint import Situation


@contextmanager
def presented(
    overrides: Sequence[str], config_dirs: Sequence[str | Path] = (), *, sweep: bool = False
) -> Iterator[None]:
    """Raise what goes wrong inside as `UserError`."""
    try:
        yield
    except UserError:
        raise
    except Exception as exc:
        raise present(exc, overrides, config_dirs, sweep=sweep) from exc


def present(
    exc: Exception,
    overrides: Sequence[str] = (),
    config_dirs: Sequence[str | Path] = (),
    *,
    sweep: bool = False,
) -> UserError:
    """What the user did wrong, where, and what to do.

    `exc` comes from Hydra, OmegaConf, PyYAML or pydantic. Names in the overrides are looked up
    first: most exceptions are about a name that does not exist. An exception that no user can
    have caused is raised again.
    """
    if isinstance(exc, UserError):
        return exc
    import yaml
    from omegaconf.errors import OmegaConfBaseException

    from .lint import Situation, mistake

    situation = Situation(overrides, config_dirs)
    if isinstance(exc, yaml.MarkedYAMLError):
        return invalid_yaml(exc)
    parsed: list[Override] = []
    for typed in overrides:
        override = _parse(typed)
        if isinstance(override, UserError):
            return override
        parsed.append(override)
    searched = any(one.input_line == "hydra/sweeper=optuna" for one in parsed)
    for override in parsed:
        found = mistake(override, situation)
        if found is None and override.is_sweep_override() and not sweep:
            found = _sweep(override)
        elif found is None and override.is_interval_sweep() and not searched:
            found = UserError(
                "an interval has no end of values",
                where=f"in the override {shorten(override.input_line)}",
                hint="list the values: range(START,STOP,STEP); or search it: hydra/sweeper=optuna",
            )
        if found is not None:
            return found
    if isinstance(exc, OmegaConfBaseException):
        return _omegaconf(exc, parsed, situation)
    if type(exc).__module__.startswith("pydantic"):
        from .invalid import invalid

        return invalid(exc, origin_finder(parsed, situation), situation)
    return _other(exc, parsed, situation)


def origin_finder(parsed: Sequence[Override], situation: Situation) -> Any:
    """A function from a dotted key to where its value comes from: an override, or `file:line`."""

    def origin(dotted: str) -> str | None:
        typed = typed_for(dotted, parsed)
        if typed is not None:
            return f"in the override {shorten(typed)}"
        from .sources import where_is

        found = where_is(dotted, situation.sources)
        return f"in {found[0]}" if found else None

    return origin


def typed_for(dotted: str, parsed: Sequence[Override]) -> str | None:
    """The last override that sets a key, or a mapping that holds it."""
    for override in reversed(parsed):
        key = override.key_or_group
        if dotted == key or (dotted.startswith(f"{key}.") and isinstance(override.value(), dict)):
            return override.input_line
    return None


def _parse(typed: str) -> Override | UserError:
    """The parsed override, or what is wrong with its spelling."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        return OverridesParser.create().parse_override(typed)
    except HydraException as exc:
        return UserError(
            f"cannot read the override {shorten(typed)}",
            where=_first_line(exc, skip="Error parsing override"),
            hint=_grammar_hint(typed),
        )


def _grammar_hint(typed: str) -> str:
    key, equals, value = typed.partition("=")
    if not equals and not typed.startswith("~"):
        return f"an override is KEY=VALUE: {shorten(key, 40)}=..."
    for opening, closing in ("[]", "{}", "()"):
        if value.count(opening) != value.count(closing):
            return f"the brackets {opening}{closing} do not match: check them, and quote the whole"
    for quote in "'\"":
        if value.count(quote) % 2:
            return f"the quotes {quote} do not match"
    if re.search(r"[\s,;:=(){}\[\]$&]", value):
        return f"quote the value inside the override: '{key}=\"{shorten(value, 40)}\"'"
    return "an override is KEY=VALUE, +KEY=VALUE or ~KEY, without spaces around ="


def _sweep(override: Override) -> UserError:
    typed = override.input_line or ""
    key, _, value = typed.partition("=")
    as_list = f"; a list is written {key}=[{shorten(value, 40)}]" if "(" not in value else ""
    return UserError(
        f"{key} has several values, and this is a single run",
        where=f"in the override {shorten(typed)}",
        hint=f"-m runs each of them{as_list}",
    )


def _omegaconf(
    exc: OmegaConfBaseException, parsed: Sequence[Override], situation: Situation
) -> UserError:
    from omegaconf.errors import InterpolationResolutionError, MissingMandatoryValue

    key = str(exc.full_key or exc.key or "")
    if isinstance(exc, MissingMandatoryValue):
        return _missing(key, origin_finder(parsed, situation), situation)
    if isinstance(exc, InterpolationResolutionError):
        from .interpolations import unresolved

        return unresolved(exc, key, origin_finder(parsed, situation))
    return UserError(
        f"{key or 'a key'}: {_first_line(exc)}", where=origin_finder(parsed, situation)(key)
    )


def _missing(key: str, origin: Any, situation: Situation) -> UserError:
    from .tree import dotted_keys, expectation, option_class

    group, _, rest = key.partition(".")
    names = [source.path.stem for source in situation.sources if source.package == group]
    options = filter(None, (option_class(group, name) for name in reversed(names)))
    fields = (option.model_fields.get(rest) for option in options)  # of the one that is chosen
    info = next(filter(None, fields), None) or dotted_keys().get(key)
    means = f": {info.description}" if info and info.description else ""
    takes = f" ({expectation(info)})" if info else ""
    return UserError(
        f"{key} has no value yet{means}", where=origin(key), hint=f"set it: {key}=...{takes}"
    )


def invalid_yaml(exc: MarkedYAMLError) -> UserError:
    """Where a file that was opened is no YAML, and why."""
    from .locations import short

    mark = exc.problem_mark or exc.context_mark
    place = (
        f"in {short(Path(mark.name))}:{mark.line + 1}, column {mark.column + 1}" if mark else None
    )
    return UserError(f"this is no valid YAML: {exc.problem}", where=place, hint="mend the file")


def _other(exc: Exception, parsed: Sequence[Override], situation: Situation) -> UserError:
    """What Hydra says itself; raises the exception again if it is none of Hydra's."""
    from hydra.errors import HydraException, MissingConfigException

    if isinstance(exc, MissingConfigException) and exc.missing_cfg_file:
        missing = str(exc.missing_cfg_file)
        group = missing.partition("/")[0]
        near = closest(missing, [f"{group}/{name}" for name in situation.options(group)])
        hint = f"did you mean {' or '.join(near)}?" if near else "mend the defaults of that file"
        inside = re.match(r"In '([^']+)'", str(exc))
        where = f"in the defaults of {inside[1]}.yaml" if inside else None
        return UserError(f"there is no config {missing}", where=where, hint=hint)
    if isinstance(exc, HydraException):
        involved = [o.input_line for o in parsed if o.input_line and o.input_line in str(exc)]
        where = f"in the override {shorten(involved[0])}" if involved else None
        return UserError(shorten(_first_line(exc), 200), where=where, hint=_cause(exc))
    if len(parsed) == 0 or not isinstance(exc, ValueError | TypeError):
        raise exc
    typed = ", ".join(shorten(o.input_line or "", 40) for o in parsed[:3])
    return UserError(f"cannot apply the overrides: {_first_line(exc)}", where=f"one of {typed}")


def _cause(exc: Exception) -> str | None:
    return (
        shorten(_first_line(exc.__cause__), 160) if isinstance(exc.__cause__, Exception) else None
    )


def _first_line(exc: BaseException, skip: str = "\0") -> str:
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith((skip, "See https://"))]
    return (told or lines or [type(exc).__name__])[0]
