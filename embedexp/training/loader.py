"""Batches by step: what a training step reads is a function of its number."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from torch.utils.data import DataLoader, Dataset, Sampler

from .interrupt import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .objective import Batch


class Steps(Dataset["Batch"]):
    """The batch of each step, made on demand by `make(step)`."""

    def __init__(self, make: Callable[[int], Batch], total: int) -> None:
        self._make, self._total = make, total

    def __len__(self) -> int:
        return self._total

    def __getitem__(self, step: int) -> Batch:
        return self._make(step)


class FromStep(Sampler[int]):
    """Step numbers from where training stands; the place is asked for when iteration starts."""

    def __init__(self, position: Callable[[], int], total: int) -> None:
        self._position, self._total = position, total

    def __len__(self) -> int:
        return self._total

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._position(), self._total))


def loader(
    make: Callable[[int], Batch],
    total: int,
    position: Callable[[], int],
    *,
    workers: int,
) -> DataLoader[Batch]:
    """A loader of ready-made batches for steps `position()` to `total`."""
    return DataLoader(
        Steps(make, total),
        sampler=FromStep(position, total),
        batch_size=None,
        num_workers=workers,
        persistent_workers=False,
        worker_init_fn=_leave_signals_to_training,
    )


def _leave_signals_to_training(_: int) -> None:
    """Signals reach every process of a job; a worker that dies of one takes the run with it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
