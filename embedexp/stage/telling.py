"""What rooms say while they work, on the screen: what was skipped, and how far it is."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .screen import Screen

ROOMS = (
    "embedexp.data",
    "embedexp.evaluation",
    "embedexp.negatives",
    "embedexp.stage.preflight",
    "embedexp.training.module",
    "embedexp.training.tracking",
)
PROGRESS = "embedexp.data.progress"


class _Teller(logging.Handler):
    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.INFO)
        self.screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """Say a warning, or how far a long piece of work is."""
        if record.levelno >= logging.WARNING:
            self.screen.say(f"warning: {record.getMessage()}")
        elif record.name == PROGRESS:
            self.screen.say(record.getMessage())


@contextmanager
def telling(screen: Screen) -> Iterator[None]:
    """Show on the screen, too, what the rooms in `ROOMS` log."""
    handler = _Teller(screen)
    for room in ROOMS:
        logging.getLogger(room).addHandler(handler)
    try:
        yield
    finally:
        for room in ROOMS:
            logging.getLogger(room).removeHandler(handler)
