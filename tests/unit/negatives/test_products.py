"""Products are wrong by no more than they say, and what is found does not depend on the product."""

import numpy as np
import pytest

from embedexp.config.errors import UserError
from embedexp.negatives import search as module
from embedexp.negatives.products import Half, Single, has_matrix_unit
from embedexp.negatives.search import Tile, search

from .test_search import brute

RNG = np.random.default_rng(3)


def rows(n, d, scale=1.0):
    return (scale * RNG.normal(size=(n, d))).astype(np.float32)


def compared(kind, queries, documents, size=64):
    """Scores of all, tile by tile."""
    product, tiles = kind(queries), []
    for begin in range(0, len(documents), size):
        product.take(documents[begin : begin + size])
        tiles.append(np.empty((len(queries), len(product.documents)), np.float32))
        product.scores(slice(0, len(queries)), tiles[-1])
    return np.concatenate(tiles, 1), product.error()


@pytest.mark.parametrize("kind", [Single, Half])
@pytest.mark.parametrize("d", [1, 16, 384, 1000])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 300.0])
def test_scores_are_wrong_by_no_more_than_the_bound(kind, d, scale):
    queries, documents = rows(50, d), rows(200, d, scale)
    documents[::7] *= 3  # lengths differ
    scores, error = compared(kind, queries, documents)
    exact = queries.astype(float) @ documents.T.astype(float)
    wrong = np.abs(scores - exact).max(1)
    assert (wrong <= error).all()
    length = np.linalg.norm(queries, axis=1) * np.linalg.norm(documents, axis=1).max()
    assert (error < ((0.0082 if d < 384 else 0.004) if kind is Half else 1e-4) * length).all()


def test_where_rounding_is_worst_the_bound_holds():
    """All values are half way between two that bfloat16 has, and all products are positive."""
    queries = np.full((2, 64), 1 + 2.0**-8, np.float32)
    queries[1] = 1 + 3 * 2.0**-8
    scores, error = compared(Half, queries, queries)
    wrong = np.abs(scores - queries.astype(float) @ queries.T.astype(float)).max(1)
    assert (wrong <= error).all()
    assert wrong.max() > 0.45 * error.max()


def test_the_setting_of_products_is_left_as_it_was():
    import torch

    before = torch.backends.mkldnn.matmul.fp32_precision
    compared(Half, rows(3, 8), rows(5, 8))
    assert torch.backends.mkldnn.matmul.fp32_precision == before


@pytest.mark.parametrize("kind", [Single, Half])
@pytest.mark.parametrize("side", ["queries", "documents"])
def test_vectors_that_are_not_finite_are_named(kind, side):
    given = {"queries": rows(4, 8), "documents": rows(4, 8)}
    given[side][2, 3] = np.nan
    with pytest.raises(UserError, match=f"some vectors of {side} are not finite"):
        compared(kind, **given)


def test_a_processor_is_asked_what_it_can(monkeypatch):
    import torch

    for able, expected in (({"amx_bf16": True}, True), ({"avx512_bf16": True}, True), ({}, False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda able=able: able, raising=False)
        assert has_matrix_unit() is expected
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert not has_matrix_unit()


@pytest.fixture(params=[True, False], ids=["bfloat16", "float32"])
def used(request, monkeypatch):
    """The products that a search makes, where a processor has a matrix unit and where it hasn't."""
    made = []

    def spy(kind):
        def build(queries):
            made.append(kind)
            return kind(queries)

        return build

    monkeypatch.setattr(module, "has_matrix_unit", lambda: request.param)
    monkeypatch.setattr(module, "Half", spy(Half))
    monkeypatch.setattr(module, "Single", spy(Single))
    return request.param, made


@pytest.mark.parametrize("tile", [Tile(), Tile(64, 100, 128)])
def test_search_is_exact_with_either(used, tile):
    half, made = used
    queries, documents = rows(300, 48), rows(3000, 48)
    found = search(queries, documents, 20, tile=tile)
    order, scores = brute(queries, documents, 20)
    np.testing.assert_array_equal(found.documents, order)
    np.testing.assert_allclose(found.scores, scores, rtol=0, atol=1e-12)
    assert set(made) == {Half if half else Single}


def test_where_bfloat16_tells_too_little_float32_goes_on(used):
    """Documents are equal but for a thousandth; after the first block it isn't asked again."""
    half, made = used
    documents = rows(1, 32) + rows(4000, 32, 1e-3)
    queries = rows(30, 32)
    found = search(queries, documents, 10, tile=Tile(8, 500, 10))
    order, scores = brute(queries, documents, 10)
    np.testing.assert_array_equal(found.documents, order)
    np.testing.assert_allclose(found.scores, scores, rtol=0, atol=1e-12)
    assert made == [Half] * half + [Single] * 3


def test_the_few_that_bfloat16_cannot_tell_are_searched_again(used):
    half, made = used
    queries, documents = rows(400, 32), rows(5000, 32)
    documents[:300] = queries[7] + rows(300, 32, 1e-3)
    found = search(queries, documents, 10)
    order, _ = brute(queries, documents, 10)
    np.testing.assert_array_equal(found.documents, order)
    assert made == [Half if half else Single]
