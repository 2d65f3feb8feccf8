"""Keeping transformers and bitsandbytes from printing."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from transformers.utils import logging as of_transformers

if TYPE_CHECKING:
    from collections.abc import Iterator


BITSANDBYTES = logging.getLogger("bitsandbytes")


@contextmanager
def quiet() -> Iterator[None]:
    """Without progress bars, the report of parameters that we leave out, and kernels not found."""
    bars, level = of_transformers.is_progress_bar_enabled(), of_transformers.get_verbosity()
    of_transformers.disable_progress_bar()
    of_transformers.set_verbosity_error()
    others = BITSANDBYTES.level
    BITSANDBYTES.setLevel(logging.ERROR)
    try:
        yield
    finally:
        BITSANDBYTES.setLevel(others)
        of_transformers.set_verbosity(level)
        if bars:
            of_transformers.enable_progress_bar()
