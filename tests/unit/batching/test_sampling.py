"""Weights follow sizes as the temperature says, and rare datasets keep their share."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from embedexp import batching
from embedexp.batching.interleaving import Interleaving
from embedexp.batching.plan import Source
from embedexp.batching.sampling import weighted
from embedexp.config import UserError, compose
from embedexp.config.schema.batching import Sampling

SOURCES = [
    Source("a", "retrieval", 1_000_000, 1.0, "en"),
    Source("b", "retrieval", 200_000, 2.0, "en"),
    Source("c", "retrieval", 5_000, 1.0, "sw"),
    Source("d", "retrieval", 70_000, 0.0, "sw"),
    Source("e", "retrieval", 40_000, 1.0, "de"),
]


def weights(temperature, by="dataset"):
    return [s.weight for s in weighted(SOURCES, Sampling(temperature=temperature, by=by))]


def test_without_a_temperature_weights_stay():
    assert weights(None) == weights(None, "language") == [1.0, 2.0, 1.0, 0.0, 1.0]


def test_datasets_are_drawn_by_weight_and_a_power_of_their_size():
    np.testing.assert_allclose(weights(1.0), [1e6, 4e5, 5e3, 0, 4e4])
    np.testing.assert_allclose(weights(0.3), [1e6**0.3, 2 * 2e5**0.3, 5e3**0.3, 0, 4e4**0.3])
    assert weights(0.0) == weights(None)


def test_languages_are_drawn_by_a_power_of_their_size_and_datasets_within_them_by_size():
    found = np.array(weights(0.3, "language"))
    share = found / found.sum()
    languages = np.array([1_200_000, 5_000, 40_000]) ** 0.3
    np.testing.assert_allclose([share[:2].sum(), share[2], share[4]], languages / languages.sum())
    np.testing.assert_allclose(share[0] / share[1], 1e6 / (2 * 2e5))
    assert share[3] == 0


def test_languages_that_nobody_named_are_refused():
    with pytest.raises(UserError, match="no dataset says which language"):
        weighted([Source("a", "retrieval", 10, 1.0)], Sampling(temperature=0.3, by="language"))


def test_the_option_reaches_the_plan():
    sources = [Source("large", "retrieval", 16_384, 1.0), Source("small", "retrieval", 1_024, 1.0)]
    for temperature, share in ((None, 1 / 2), (0.5, 4 / 5), (1.0, 16 / 17)):
        overrides = [] if temperature is None else [f"batching.sampling.temperature={temperature}"]
        plan = batching.build(compose(overrides).batching, sources, seed=0)
        turns = Counter(plan(step)[0].dataset for step in range(170))
        assert turns[0] == pytest.approx(170 * share, abs=1)


@pytest.mark.parametrize(
    ("weights", "blocks"),
    [
        ([1.0, 1e-4], 32),
        ([1.0, 3e-4, 0.0, 1e-3], 32),
        ([size**0.3 for size in range(1, 200)], 8),
        ([1.0] * 5000, 128),
    ],
)
def test_shares_are_exact_over_a_cycle_and_near_in_each_of_its_blocks(weights, blocks):
    shares = np.array(weights) / sum(weights)
    sources, draws = Interleaving(weights, key=5)(np.arange(4096 * blocks))
    counts = np.bincount(sources, minlength=len(weights))
    np.testing.assert_allclose(counts, shares * 4096 * blocks, rtol=0.011)
    count = len(weights)
    of_blocks = [np.bincount(part, minlength=count) for part in sources.reshape(blocks, -1)]
    assert np.abs(np.stack(of_blocks) - shares * 4096).max() < 2
    for source in range(min(count, 5)):
        mine = draws[sources == source]
        assert sorted(mine.tolist()) == list(range(len(mine)))


def test_a_rare_dataset_comes_at_even_intervals():
    sources, _ = Interleaving([1.0, 5e-5], key=9)(np.arange(4096 * 64))
    (places,) = np.nonzero(sources)
    assert len(places) == 13  # 0.00005 of them
    assert np.diff(places).max() < 3 / 5e-5


def test_only_the_ratio_of_weights_counts_however_small_they_are():
    sources, _ = Interleaving([1e-12, 2e-12], key=9)(np.arange(4096))
    assert np.bincount(sources).tolist() == [1365, 2731]
