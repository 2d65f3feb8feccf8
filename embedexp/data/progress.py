"""A bar, or lines in a log, for work on the data that takes more than a moment."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

log = logging.getLogger(__name__)

SILENT_SECONDS = 2.0
LINE_SECONDS = 15.0


class Progress:
    """Shows count, rate and time left: a live bar in a terminal, elsewhere a line now and then."""

    def __init__(self, what: str, total: int | None, unit: str, done: int = 0) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = self.first = done
        self._start = self._shown = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            from tqdm import tqdm  # type: ignore[import-untyped]

            self._bar = tqdm(
                desc=self.what,
                total=self.total,
                initial=self.done,
                unit=f" {self.unit}",
                unit_scale=True,
                delay=SILENT_SECONDS,
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def add(self, count: int) -> None:
        """So many more are done."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)
            return
        now = time.monotonic()
        first = self._shown == self._start
        if now - self._shown >= (SILENT_SECONDS if first else LINE_SECONDS):
            self._shown = now
            log.info("%s", self.line(now - self._start))

    def skip(self, count: int) -> None:
        """So many more were done before: they say nothing about the rate."""
        self.first += count
        self.done += count
        if self._bar is not None:
            self._bar.initial += count
            self._bar.update(count)

    def line(self, seconds: float) -> str:
        """The state in words, `seconds` after the start."""
        rate = (self.done - self.first) / max(seconds, 1e-9)
        if self.total is None:
            return f"{self.what} {self.done:,} {self.unit} ({rate:,.0f}/s)"
        left = (self.total - self.done) / max(rate, 1e-9)
        return (
            f"{self.what} {self.done:,} of {self.total:,} {self.unit} "
            f"({rate:,.0f}/s, {left:,.0f} s left)"
        )
