"""Memory that tensors leave behind is kept for the next ones."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
LARGEST = 2**30
"""Bytes of a tensor, and of unused memory at the end of the heap, above which it is given back."""


def keep_pages() -> bool:
    """Have glibc keep freed memory; False where the C library has no such setting.

    By default it gives what is larger than 32 MiB back, and the kernel clears pages of the next
    tensor one by one, which is no small part of a CPU step with large activations. More is then
    held only as far as pieces of different sizes don't fit into each other.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another system
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGEST) and mallopt(_TRIM_THRESHOLD, LARGEST))
