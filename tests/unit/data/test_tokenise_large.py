"""Many pairs are tokenised without being in memory, and after a kill -9 without starting anew."""

import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from embedexp.data import columns, store
from embedexp.data.cache import WORK
from embedexp.data.columns import Column, Example, ExampleStore
from embedexp.data.dataset import Corpus
from embedexp.data.tokenise import tokenise

from . import options
from .test_store import Words

PAIRS = 20_000
LONG = "word" * 180  # 720 bytes in each of two texts: 29 MB in all


class Sleepy(Words):
    """A tokenizer whose work takes a while."""

    def __call__(self, text, **options):
        time.sleep(0.1)
        return super().__call__(text, **options)


Sleepy.__name__ = "Words"  # the same tokenizer, to the key


def dataset(cache_dir, pairs=PAIRS):
    rows = (Example(f"{n} query {LONG}", f"{n % 9000} positive {LONG}") for n in range(pairs))
    return ExampleStore.build(
        name="big", task="retrieval", rows=rows, cache_dir=cache_dir, key=str(pairs)
    )


@pytest.fixture(autouse=True)
def filed(monkeypatch):
    monkeypatch.setattr(columns, "SMALL", 1000)
    monkeypatch.setattr(columns, "BATCH", 1024)
    monkeypatch.setattr(store, "BATCH", 512)
    monkeypatch.setattr(store, "COMMIT", 20_000)


def test_neither_texts_nor_columns_are_in_memory(tmp_path):
    tokenise(Corpus((dataset(tmp_path, 1100),)), Words(), options.embedding(), tmp_path)  # imports
    tracemalloc.start()
    try:
        big = dataset(tmp_path)
        done = tokenise(Corpus((big,)), Words(), options.embedding(), tmp_path)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(big.queries, Column)
    assert peak < 10e6  # a third of the texts' bytes; hashes and ids are there for a moment
    assert kept < 1e6
    (data,) = done.datasets
    for array in (
        done.store.flat,
        done.store.offsets,
        data.query_ids,
        data.positive_keys,
        data.lengths,
    ):
        assert isinstance(array, np.memmap)
    assert len(done.store) == PAIRS + 9000
    expected = Words()([big.queries[12_345]], max_length=16)["input_ids"][0]
    assert done.store.tokens(data.query_ids[12_345]).tolist() == expected
    assert (data.positive_ids[9000:] == data.positive_ids[: PAIRS - 9000]).all()


def test_a_killed_build_is_continued(tmp_path):
    program = (
        "import sys; from tests.unit.data.test_tokenise_large import *;"
        "store.BATCH, store.COMMIT = 512, 20_000; columns.SMALL, columns.BATCH = 1000, 1024;"
        "data = dataset(sys.argv[1]);"
        "tokenise(Corpus((data,)), Sleepy(), options.embedding(), sys.argv[1])"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=root) as process:
        give_up = time.monotonic() + 120
        while not (found := list(tmp_path.glob(f"building/*/{WORK}/tokens.json"))):
            assert process.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert len(found) == 1
    assert not list(tmp_path.glob("tokens/*"))

    class Counting(Words):
        texts = 0

        def __call__(self, text, **options):
            Counting.texts += len(text)
            return super().__call__(text, **options)

    Counting.__name__ = "Words"
    corpus = Corpus((dataset(tmp_path),))
    resumed = tokenise(corpus, Counting(), options.embedding(), tmp_path)
    assert 0 < Counting.texts < PAIRS + 9000 - 20_000 // 5
    whole = tokenise(corpus, Words(), options.embedding(), tmp_path / "at once")
    assert (resumed.store.flat == whole.store.flat).all()
    assert (resumed.store.offsets == whole.store.offsets).all()
    assert (resumed.datasets[0].positive_ids == whole.datasets[0].positive_ids).all()
