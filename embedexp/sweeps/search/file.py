"""A search in a sweep file: `mode: search`, with the space in the place of rows and columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from embedexp.config.errors import UserError, shorten
from embedexp.config.locations import conf_dir

from ..reading import content_of, invalid, place
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
    try:
        content = content_of(path)
    except UserError:
        return False
    return isinstance(content, dict) and content.get("mode") == "search"


def read(path: Path) -> tuple[SearchFile, Space]:
    """The search in the file `path`, and its space.

    Raises:
        UserError: the file says something that can't be meant; the message names the line.
    """
    content = content_of(path)
    try:
        file = SearchFile.model_validate(content)
    except ValidationError as error:
        raise invalid(error, path, "search", lambda _: _fields(SearchFile)) from None
    parameters = [_parameter(key, value, path) for key, value in file.space.items()]
    try:
        return file, ordered(parameters)
    except UserError as error:
        raise UserError(error.what, where=place(path, ["space"]), hint=error.hint) from None


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
    below = ["space", key]
    if not isinstance(content, dict):
        raise UserError(
            f"{key}: {shorten(content, 40)} is no space",
            where=place(path, below),
            hint="[VALUE, VALUE], or {low: LOW, high: HIGH}; fixed values go to base",
        )
    form: type[Chosen | Interval] = Chosen if "choice" in content else Interval
    try:
        found = form.model_validate(content)
    except ValidationError as error:
        raise invalid(error, path, "search", lambda _: _fields(form), below) from None
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
        raise UserError(error.what, where=place(path, below), hint=error.hint) from None


def _fields(form: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in form.model_fields.items()]
