"""Keeping transformers and bitsandbytes from printing."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from transformers.utils import logging as of_transformers

if TYPE_CHECKING:
    from collections.abc import Iterator


# Whatever imports it, it warns where a processor could do what only its own layers do.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' progress bars and its report of parameters that we leave out."""
    bars, level = of_transformers.is_progress_bar_enabled(), of_transformers.get_verbosity()
    of_transformers.disable_progress_bar()
    of_transformers.set_verbosity_error()
    try:
        yield
    finally:
        of_transformers.set_verbosity(level)
        if bars:
            of_transformers.enable_progress_bar()
