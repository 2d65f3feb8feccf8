"""A search in a sweep file: `mode: search`, with the space in the place of rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from embedexp.config.errors import UserError, closest, shorten
from embedexp.config.locations import conf_dir, short
from embedexp.config.sources import line_of

from ..file import loader
from .settings import SearchSettings, settings_of
from .space import Choice, Parameter, Space, When, conditions, number, ordered, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Interval(BaseModel):
    """Numbers from `low` to `high`, both included."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    low: float = Field(description="the smallest")
    high: float = Field(description="the largest")
    step: float | None = Field(default=None, description="the distance of two; null: any number")
    log: bool = Field(default=False, description="drawn evenly in the logarithm")
    whole: bool = Field(default=False, alias="int", description="whole numbers only")
    when: dict[str, Any] | None = Field(default=None, description="key -> value or list")


class Chosen(BaseModel):
    """One of several values of the key, or one of several labels with overrides of their own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    choice: list[Any] | dict[str, list[str]] = Field(description="values", min_length=2)
    when: dict[str, Any] | None = Field(default=None, description="key -> value or list")


class SearchFile(BaseModel):
    """A search: what all trials share, the space, and how it is searched."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: str = Field(description="search")
    title: str = Field(description="the heading", min_length=1)
    question: str = Field(description="what is searched for, in one sentence", min_length=1)
    base: list[str] = Field(default=[], description="overrides of all trials")
    space: dict[str, Any] = Field(description="key -> values or an interval", min_length=1)
    search: dict[str, Any] = Field(default={}, description="settings of the search")


def is_search(path: Path) -> bool:
    """Whether the sweep file at `path` is a search; false too where it can't be read."""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return False
    return isinstance(content, dict) and content.get("mode") == "search"


def read(path: Path) -> tuple[SearchFile, Space]:
    """The search in the file `path`, and its space.

    Raises:
        UserError: the file says something that can't be meant; the message names the line.
    """
    import yaml

    try:
        content: Any = yaml.load(path.read_text(encoding="utf-8"), Loader=loader())
        file = SearchFile.model_validate(content)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{short(path)} can't be read: {error}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{short(path)} is no valid YAML", hint=str(error)) from None
    except ValidationError as error:
        raise _invalid(error, path, [], SearchFile) from None
    parameters = [_parameter(key, value, path) for key, value in file.space.items()]
    try:
        return file, ordered(parameters)
    except UserError as error:
        where = f"in {short(path)}:{line_of(path, ['space'])}"
        raise UserError(error.what, where=where, hint=error.hint) from None


def settings_in(file: SearchFile, typed: Sequence[str]) -> SearchSettings:
    """The file's settings over the defaults, and `hydra.sweeper.KEY=VALUE` over both.

    Raises:
        UserError: there is no such setting, or it is wrong.
    """
    import yaml
    from hydra.core.override_parser.overrides_parser import OverridesParser

    text = (conf_dir() / "hydra" / "sweeper" / "optuna.yaml").read_text(encoding="utf-8")
    values: dict[str, Any] = yaml.safe_load(text) | file.search
    prefix = "hydra.sweeper."
    for override in OverridesParser.create().parse_overrides(list(typed)):
        values[override.get_key_element().removeprefix(prefix)] = override.value()
    # Space and conditions are the file's; the class is Hydra's.
    for key in ("_target_", "when", "params"):
        if key in file.search:
            raise UserError(
                f"search.{key} has no effect in a file", hint="conditions: space.*.when"
            )
        values.pop(key, None)
    return settings_of(values)


def _parameter(key: str, value: Any, path: Path) -> Parameter:
    content = {"choice": value} if isinstance(value, list) else value
    place = ["space", key]
    if not isinstance(content, dict):
        raise UserError(
            f"{key}: {shorten(content, 40)} is no space",
            where=f"in {short(path)}:{line_of(path, place)}",
            hint="[VALUE, VALUE], or {low: LOW, high: HIGH}; fixed values go to base",
        )
    form: type[Chosen | Interval] = Chosen if "choice" in content else Interval
    try:
        found = form.model_validate(content)
    except ValidationError as error:
        raise _invalid(error, path, place, form) from None
    when: When = {} if found.when is None else conditions(found.when, f"space.{key}.when")
    if isinstance(found, Chosen):
        if isinstance(found.choice, dict):
            options = {str(label): tuple(texts) for label, texts in found.choice.items()}
        else:
            options = {text: (f"{key}={text}",) for text in map(text_of, found.choice)}
        return Choice(key, options, when)
    try:
        return number(
            key,
            found.low,
            found.high,
            step=found.step,
            log=found.log,
            whole=found.whole,
            when=when,
        )
    except UserError as error:
        where = f"in {short(path)}:{line_of(path, place)}"
        raise UserError(error.what, where=where, hint=error.hint) from None


def _invalid(
    error: ValidationError, path: Path, place: list[str], form: type[BaseModel]
) -> UserError:
    first = error.errors(include_url=False)[0]
    keys = [*place, *(str(part) for part in first["loc"])]
    known = next(
        (keys[:end] for end in range(len(keys), 0, -1) if line_of(path, keys[:end]) is not None), []
    )
    where = f"in {short(path)}" + (f":{line_of(path, known)}" if known else "")
    dotted = ".".join(keys)
    if first["type"] == "missing":
        return UserError(f"{dotted} is missing", where=where, hint="give it a value")
    if first["type"] == "extra_forbidden":
        fields = [field.alias or name for name, field in form.model_fields.items()]
        near = closest(keys[-1], fields)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are: {', '.join(fields)}"
        return UserError(f"a search has no key {dotted}", where=where, hint=hint)
    return UserError(f"{dotted}: {first['msg']}, not {shorten(first['input'], 60)}", where=where)
