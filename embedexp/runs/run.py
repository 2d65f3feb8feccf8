"""A run as a result: what `embedexp.run` hands back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from embedexp.config import Config

    from .directory import RunDirectory
    from .status import Status


@dataclass(frozen=True)
class Run:
    """A run that has been executed, or found finished, and where its results are."""

    directory: RunDirectory

    @property
    def path(self) -> Path:
        """The run directory."""
        return self.directory.path

    @property
    def config(self) -> Config:
        """The frozen config."""
        return self.directory.config

    @property
    def status(self) -> Status:
        """The status as it is now."""
        return self.directory.status

    @property
    def model(self) -> Path:
        """The model directory, in sentence-transformers format."""
        return self.directory.model

    @property
    def scores(self) -> dict[str, list[dict[str, Any]]]:
        """Scores "before" and "after": lists of {task, type, metric, value, ...}, maybe empty.

        A damaged file has none: in a table of many runs, one must not hide the others.
        """
        try:
            content = json.loads(self.directory.scores_file.read_bytes())
            found = {key: content[key] for key in ("before", "after")}
            whole = all("value" in score for scores in found.values() for score in scores)
        except (OSError, ValueError, TypeError, KeyError):
            whole = False
        return found if whole else {"before": [], "after": []}

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`, in order."""
        return self.directory.metrics.read()
