"""What ranks other than the first leave in a run directory when they fail."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from .failure import FailureKind

if TYPE_CHECKING:
    from pathlib import Path

# When one rank dies, the others only see a connection that is gone.
_PEER_GONE = re.compile(
    r"connection (?:was )?(?:closed|reset|refused|lost)|broken pipe|\bpeer\b|\bgloo\b|\bnccl\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class RankFailure:
    """Why rank `rank` failed, and when."""

    rank: int
    message: str
    kind: FailureKind
    traceback: str | None
    time: datetime

    @property
    def peer_gone(self) -> bool:
        """Whether it only saw that another rank had gone away."""
        return _PEER_GONE.search(self.message) is not None


def rank_failures(folder: Path, since: str | None = None) -> list[RankFailure]:
    """The failures that ranks have left in `folder`, those that are a cause before mere effects.

    `since` (ISO 8601) leaves out what an earlier attempt has left.
    """
    found = []
    for path in folder.glob("failure.rank*.json"):
        try:
            rank = int(path.name.removeprefix("failure.rank").removesuffix(".json"))
            content = json.loads(path.read_bytes())
            failure = RankFailure(
                rank,
                str(content["message"]),
                FailureKind(content["kind"]),
                content.get("traceback"),
                datetime.fromisoformat(content["time"]),
            )
            if since is None or failure.time >= datetime.fromisoformat(since):
                found.append(failure)
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return sorted(found, key=lambda failure: (failure.peer_gone, failure.time, failure.rank))
