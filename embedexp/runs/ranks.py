"""What ranks other than the first leave in a run directory when they fail."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from embedexp.files import write_atomically

from .failure import FailureKind
from .status import now

if TYPE_CHECKING:
    from pathlib import Path

# When one rank dies, the others only see a connection that is gone, in gloo's or torch's words.
_PEER_GONE = re.compile(
    r"connection (?:was )?(?:closed|reset|refused|lost)|broken pipe|\bpeer\b|\bgloo\b|\bnccl\b"
    r"|Dist(?:Backend|Network|Store)Error",
    re.I,
)
_FILES = "failure.rank*.json"


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
        return says_peer_gone(self.message)


def says_peer_gone(text: str) -> bool:
    """Whether an error's words only tell that another rank has gone away."""
    return _PEER_GONE.search(text) is not None


def failure_file(folder: Path, rank: int) -> Path:
    """Where rank `rank`, after the first, says why it failed."""
    return folder / f"failure.rank{rank}.json"


def write_rank_failure(
    folder: Path, rank: int, message: str, kind: FailureKind, trace: str | None = None
) -> None:
    """Say in the run directory `folder` why a rank after the first failed."""
    content = {"message": message, "kind": kind, "traceback": trace, "time": now()}
    write_atomically(failure_file(folder, rank), json.dumps(content, indent=2) + "\n")


def forget_rank_failures(folder: Path) -> None:
    """Delete what ranks of an earlier attempt have left."""
    for path in folder.glob(_FILES):
        path.unlink(missing_ok=True)


def rank_failures(folder: Path, since: str | None = None) -> list[RankFailure]:
    """The failures that ranks have left in `folder`, those that are a cause before mere effects.

    `since` (ISO 8601) leaves out what an earlier attempt has left.
    """
    found = []
    for path in folder.glob(_FILES):
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
