"""What a person sees while a model trains: a bar in a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from embedexp.config.figures import human


def duration(seconds: float) -> str:
    """Minutes and seconds, or hours and minutes: `1:05`, `2h07`."""
    whole = max(0, round(seconds))
    return (
        f"{whole // 60}:{whole % 60:02d}"
        if whole < 3600
        else f"{whole // 3600}h{whole % 3600 // 60:02d}"
    )


class TrainingProgress:
    """Shows steps, loss, samples per second and time left.

    In a terminal it is one live bar, with tokens per second as well; elsewhere a line at the
    start, then at most one every `seconds` and the last.
    """

    def __init__(self, total: int, *, stream: TextIO | None = None, seconds: float = 5.0) -> None:
        self.total, self.seconds = total, seconds
        self.stream = stream or sys.stderr
        self._shown = float("-inf")
        self._bar: Any = None
        self._task: Any = None

    def start(self, step: int) -> None:
        """Begin at `step` finished steps."""
        if self.stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("training"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[text]}"),
                console=Console(file=self.stream),
            )
            self._bar.start()
            self._task = self._bar.add_task("training", total=self.total, completed=step, text="")

    def show(
        self, step: int, loss: float, rate: float, eta: float, tokens: float | None = None
    ) -> None:
        """Show `step` finished steps, the loss, samples and tokens per second, the seconds left."""
        text = f"loss {loss:.4f}  {rate:,.0f} samples/s  {duration(eta)} left"
        if self._bar is not None:
            if tokens is not None:
                text = text.replace("samples/s", f"samples/s  {human(tokens)} tokens/s")
            self._bar.update(self._task, completed=step, text=text)
            return
        now = time.monotonic()
        if step == self.total or now - self._shown >= self.seconds:
            self._shown = now
            print(f"step {step}/{self.total}  {text}", file=self.stream, flush=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()
