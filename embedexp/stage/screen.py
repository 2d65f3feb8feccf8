"""What a person at the terminal sees of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from embedexp.training.progress import TrainingProgress


class Screen:
    """Prints a run's words, tables and progress; a quiet one prints nothing."""

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.console import Console

        self.quiet = quiet
        self._console = Console(quiet=quiet, highlight=False, soft_wrap=True)

    def say(self, text: str = "") -> None:
        """Print plain text: whatever it holds, it is no markup."""
        self._console.print(text, markup=False)

    def show(self, renderable: Any) -> None:
        """Print a rich table or the like."""
        self._console.print(renderable)

    def training(self, total: int) -> TrainingProgress | None:
        """The progress display of a training run of `total` steps."""
        from embedexp.training.progress import TrainingProgress

        return None if self.quiet else TrainingProgress(total)
