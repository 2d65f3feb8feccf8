"""Views of vectors give rows of length 1, and leave what they look at as it is."""

import numpy as np

from embedexp.negatives.vectors import Mean, Normalised, Subset

RNG = np.random.default_rng(3)


def test_rows_are_normalised_and_the_vectors_below_stay_as_they_are():
    given = RNG.normal(size=(20, 6)).astype(np.float32)
    given[4] = 0
    before = given.copy()
    numbers = np.array([7, 4, 7, 0])
    expected = before / np.maximum(np.linalg.norm(before, axis=1), 1e-30)[:, None]
    views = Normalised(given), Normalised(Subset(given, np.arange(20))), Normalised(Mean([given]))
    for view in views:
        for index in (numbers, slice(2, 9), numbers):
            np.testing.assert_allclose(view[index], expected[index], rtol=1e-6)
    np.testing.assert_array_equal(given, before)


def test_vectors_that_may_not_be_written_are_normalised_too(tmp_path):
    np.save(tmp_path / "vectors.npy", RNG.normal(size=(20, 6)).astype(np.float32))
    given = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    for index in (np.array([3, 1]), slice(3, 5)):
        np.testing.assert_allclose(np.linalg.norm(Normalised(given)[index], axis=1), 1, rtol=1e-6)
