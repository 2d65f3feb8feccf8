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
        """Scores "before" and "after": lists of {task, type, metric, value, ...}, maybe empty."""
        scores: dict[str, list[dict[str, Any]]] = {"before": [], "after": []}
        if self.directory.scores_file.exists():
            content = json.loads(self.directory.scores_file.read_bytes())
            scores |= {key: content[key] for key in scores if key in content}
        return scores

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of `metrics.jsonl`, in order."""
        return self.directory.metrics.read()
