"""Measuring must not change what is measured: random states, dropout mode, the terminal."""

from __future__ import annotations

import contextlib
import logging
import random
import warnings
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def random_state_kept() -> Iterator[None]:
    """Leave the global random states as they were: mteb seeds them, and training goes on."""
    import numpy as np
    import torch

    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


@contextlib.contextmanager
def evaluation_mode(embedder: object) -> Iterator[None]:
    """Without dropout, and afterwards as before."""
    from torch import nn

    if not isinstance(embedder, nn.Module):
        yield
        return
    training = {module: module.training for module in embedder.modules()}
    embedder.eval()
    try:
        yield
    finally:
        for module, mode in training.items():
            module.training = mode


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without progress bars, and without noise about unpredicted classes and retried downloads."""
    import datasets
    from mteb._evaluators.text import bitext_mining_evaluator
    from sklearn.exceptions import UndefinedMetricWarning

    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    # Bitext mining is the one kind of task that can't be asked for no progress bar.
    original = bitext_mining_evaluator.tqdm
    # An unreachable hub is told once per task, as the task's failure, not at each of its retries.
    retries = logging.getLogger("huggingface_hub.utils._http")
    level = retries.level
    retries.setLevel(logging.ERROR)
    bitext_mining_evaluator.tqdm = partial(original, disable=True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UndefinedMetricWarning)
            # scikit-learn takes many classes with few examples of each for a mistake.
            warnings.filterwarnings("ignore", message="The number of unique classes is greater")
            yield
    finally:
        bitext_mining_evaluator.tqdm = original
        retries.setLevel(level)
        if shown:
            datasets.enable_progress_bars()
