"""What a cross-group check reports, and how a check says which groups it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .experiment import Config


@dataclass(frozen=True)
class Problem:
    """A contradiction between groups: what is wrong, and the change that mends it."""

    message: str
    fix: str
    severity: Literal["error", "warning"] = "error"


@dataclass(frozen=True)
class Rule:
    """A named check; it is asked only in stages that use all of its groups."""

    groups: tuple[str, ...]
    check: Callable[[Config], Problem | None]

    def __call__(self, config: Config) -> Problem | None:
        """The problem that this rule finds, or None."""
        uses = config.stage.uses
        return self.check(config) if all(group in uses for group in self.groups) else None


def rule(*groups: str) -> Callable[[Callable[[Config], Problem | None]], Rule]:
    """Make a rule of a function; its name says what the rule protects."""
    return lambda check: Rule(groups, check)


def warning(message: str, fix: str) -> Problem:
    """A problem that does not keep the experiment from running."""
    return Problem(message, fix, "warning")


def listed(words: Sequence[str]) -> str:
    """The words as an override writes a list: `[a,b]`."""
    return f"[{','.join(words)}]"


def shard_beyond_the_last(key: str, shard: int | None, shards: int) -> Problem | None:
    """The problem of a shard, counted from 0, that is none of `shards`; None means all of them."""
    if shard is None or shard < shards:
        return None
    return Problem(
        f"{key}={shard}, but the last of {key}s={shards} is {shards - 1}",
        "choose one from 0, or null for all",
    )
