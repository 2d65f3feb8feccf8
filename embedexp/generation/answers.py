"""Answers that are kept: the same question to the same model is not asked and paid for twice."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from filelock import FileLock

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Answer:
    """What a model said: its text, why it ended, a refusal, and what it cost in tokens.

    `paid` is False where the answer was known already and nobody was asked.
    """

    text: str
    finish: str
    refusal: str | None
    prompt_tokens: int
    output_tokens: int
    paid: bool = True


REJECTED = Answer("", "rejected", None, 0, 0)
"""In the place of an answer to a request that the endpoint will not take."""


def key_of(body: dict[str, Any]) -> str:
    """The content of a request: SHA-256 of its body, the model among it."""
    text = json.dumps(body, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class AnswerFile:
    """Lines of JSON that only grow; read by their places, so that memory holds only these.

    Several processes may add. A line that was cut short by a crash does not count.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, int] = {}
        self.paid, self.tokens = 0, 0  # answers that were paid for, and their tokens
        self._read = 0
        self._scan()

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: str) -> Answer | None:
        """The answer to a request, if it is there."""
        place = self._places.get(key)
        if place is None:
            return None
        with self.path.open("rb") as file:
            file.seek(place)
            values = json.loads(file.readline())
        values.pop("key")
        return Answer(**values)

    def add(self, key: str, answer: Answer) -> None:
        """Keep an answer."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        line = json.dumps({"key": key, **asdict(answer)}, ensure_ascii=False).encode() + b"\n"
        with FileLock(f"{self.path}.lock"), self.path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    line = b"\n" + line
            file.write(line)
        self._scan()

    def _scan(self) -> None:
        """Take in what has been added since, by this process or another."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            while line := file.readline():
                if not line.endswith(b"\n"):
                    break
                place, self._read = self._read, file.tell()
                try:
                    values = json.loads(line)
                    if values["paid"]:
                        self.paid += 1
                        self.tokens += values["prompt_tokens"] + values["output_tokens"]
                    self._places[values["key"]] = place
                except (ValueError, KeyError, TypeError):
                    continue
