"""Scores, and the file that keeps them."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

Phase = Literal["before", "after"]
"""Before or after training."""

FILE_NAME = "scores.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Score:
    """One model on one task.

    `type` and `metric` are mteb's names; `value` is a fraction (1 is best), mteb's own mean over
    the subsets where the task has any; `seconds` is the time that it took. `subsets` holds the
    value per subset (a language, a language pair), as split/subset where several splits count, and
    `languages` the codes of each (eng-Latn), `default` being that of a task without subsets.
    `fingerprint` is a hash of everything that could change the value: weights, prompts, settings,
    data and mteb's version.
    """

    task: str
    type: str
    metric: str
    value: float
    seconds: float
    fingerprint: str
    subsets: Mapping[str, float] = field(default_factory=dict)
    languages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    domains: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Score:
        """From JSON values."""
        return cls(**{**values, "domains": tuple(values.get("domains", ()))})


@dataclass(frozen=True)
class Failure:
    """A task that could not be measured, and why, in one line."""

    task: str
    type: str
    reason: str


def mean(scores: Iterable[Score]) -> float | None:
    """The mean value over tasks, or None without any."""
    values = [score.value for score in scores]
    return sum(values) / len(values) if values else None


class ScoreFile:
    """A folder's scores.json: scores before and after training, and how they were measured.

    Its form is `{"before": [...], "after": [...], "settings": {...}}`, and where tasks could not
    be measured `"failed": {"before": [...], "after": [...]}` beside it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    def read(self, phase: Phase) -> list[Score]:
        """The scores of one phase, in the order in which they were measured."""
        return [Score.from_dict(values) for values in self._content()[phase]]

    def failed(self, phase: Phase) -> list[Failure]:
        """The tasks of one phase that could not be measured."""
        return [Failure(**values) for values in self._content().get("failed", {}).get(phase, ())]

    @property
    def settings(self) -> dict[str, Any]:
        """How the scores were measured: versions, prompts, lengths, sizes."""
        return dict(self._content()["settings"])

    def write(
        self,
        phase: Phase,
        scores: Iterable[Score],
        settings: Mapping[str, Any],
        failed: Iterable[Failure] = (),
    ) -> None:
        """Replace one phase; a reader sees the old file or the new one, whole."""
        content = self._content()
        content[phase] = [score.to_dict() for score in scores]
        content["settings"] = dict(settings)
        others = {k: v for k, v in content.pop("failed", {}).items() if k != phase}
        if entries := [asdict(failure) for failure in failed]:
            others[phase] = entries
        if others:
            content["failed"] = others
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
        temporary.replace(self.path)

    def _content(self) -> dict[str, Any]:
        content: dict[str, Any] = {"before": [], "after": [], "settings": {}}
        try:
            found: dict[str, Any] = json.loads(self.path.read_text("utf-8"))
            for phase in ("before", "after"):
                found[phase] = [Score.from_dict(values).to_dict() for values in found[phase]]
            return content | found
        except FileNotFoundError:
            return content
        except (OSError, ValueError, TypeError, KeyError) as error:
            # Scores can be measured again; a damaged file must not stand in the way of that.
            log.warning("%s can't be read and counts as empty: %s", self.path, error)
            return content
