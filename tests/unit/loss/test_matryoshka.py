"""A loss at several widths is the weighted sum over renormalised prefixes."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from embedexp.config import compose
from embedexp.loss import build, info_nce, matryoshka
from embedexp.loss.infonce import InfoNCELoss

from .references import batch_of, mat

Q = mat(4, 8, 0.3)
P = Q + 3 * mat(4, 8, 1.1)
IN_BATCH = partial(info_nce, temperature=0.05, denominator=["other_positives"])
GOLDEN = {8: 1.5914552594504372e-05, 4: 3.407225699778053e-05, 2: 0.061473240091597436}


@pytest.mark.parametrize("widths", [[8, 4, 2], [2, 8, 4]])
def test_golden_values_in_any_order_of_widths(widths):
    assert matryoshka(IN_BATCH, widths)(Q, P).item() == pytest.approx(0.06152322690118972, rel=1e-9)
    weights = [10.0**i for i in range(3)]
    expected = sum(w * GOLDEN[width] for w, width in zip(weights, widths, strict=True))
    assert matryoshka(IN_BATCH, widths, weights)(Q, P).item() == pytest.approx(expected, rel=1e-9)


def test_weights_scale_gradients_and_short_prefixes_leave_the_rest_alone():
    q, p = Q.clone().requires_grad_(), P.clone().requires_grad_()
    matryoshka(IN_BATCH, [2, 4], [1.0, 0.5])(q, p).backward()
    expected = torch.zeros_like(Q)
    for width, weight in ((2, 1.0), (4, 0.5)):
        part = Q[:, :width].clone().requires_grad_()
        IN_BATCH(part, P[:, :width]).backward()
        expected[:, :width] += weight * part.grad
    torch.testing.assert_close(q.grad, expected)
    assert (q.grad[:, 4:] == 0).all()


def test_agrees_with_sentence_transformers():
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import (
        MatryoshkaLoss,
        MultipleNegativesRankingLoss,
    )

    class Fixed(torch.nn.Module):
        def forward(self, features):
            return {**features, "sentence_embedding": features["vectors"]}

        def get_embedding_dimension(self):
            return 8

    model = SentenceTransformer(modules=[Fixed()])
    theirs = MatryoshkaLoss(model, MultipleNegativesRankingLoss(model), [8, 4, 2], [1, 0.5, 0.25])
    a, b = (x.clone().requires_grad_() for x in (Q, P))
    c, d = (x.clone().requires_grad_() for x in (Q, P))
    expected = theirs([{"vectors": a}, {"vectors": b}], None)
    found = matryoshka(IN_BATCH, [2, 4, 8], [0.25, 0.5, 1])(c, d)
    assert found.item() == pytest.approx(expected.item())
    expected.backward()
    found.backward()
    torch.testing.assert_close(c.grad, a.grad)
    torch.testing.assert_close(d.grad, b.grad)


def test_targets_of_a_regression_are_cut_too():
    widths, expected = [4, 8], 0.0
    for width in widths:
        a, b = (F.normalize(x[:, :width], dim=1) for x in (Q, P))
        expected += F.mse_loss(a, b).item()
    assert matryoshka(F.mse_loss, widths)(Q, P).item() == pytest.approx(expected)
    assert matryoshka(F.mse_loss, widths)(Q, target=P).item() == pytest.approx(expected)


def test_terms_are_named_after_their_width_and_gauges_are_not():
    batch = batch_of([(i, -1) for i in range(4)], [(i + 4, -1) for i in range(4)])
    inner = InfoNCELoss(0.05, ["other_positives"], min_temperature=0.01)
    output = matryoshka(inner, [2, 8])(torch.cat([Q, P]), batch)
    assert set(output.terms) == {"infonce_2", "infonce_8", "temperature"}
    assert output.terms["infonce_2"].item() == pytest.approx(GOLDEN[2], rel=1e-6)
    assert output.total.item() == pytest.approx(GOLDEN[2] + GOLDEN[8], rel=1e-6)
    output.total.backward()
    assert inner.log_scale.grad is not None


@pytest.mark.parametrize("name", ["infonce", "cosent", "angle", "task_aware", "qwen3"])
def test_every_option_can_be_taken_at_several_widths(name):
    loss = compose([f"loss={name}", "loss.matryoshka.widths=[64,384]"]).loss
    scored = name in ("cosent", "angle")
    keys = [(i, -1) for i in range(6)]
    batch = batch_of(
        keys,
        [(i + 9, -1) for i in range(6)],
        tasks=["sts" if scored else "retrieval"] * 6,
        scores=[0.0, 0.2, 0.4, 0.6, 0.8, 1.0] if scored else None,
    )
    vectors = torch.randn(12, 384)
    whole = build(compose([f"loss={name}"]).loss)
    narrow = whole(vectors[:, :64], batch).total
    expected = whole(vectors, batch).total + narrow
    assert build(loss)(vectors, batch).total.item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize(
    ("widths", "weights", "words"),
    [([], None, "at least 1"), ([4, 4], None, "distinct"), ([4], [1, 2], "2 weights")],
)
def test_impossible_widths_are_refused(widths, weights, words):
    with pytest.raises(ValueError, match=words):
        matryoshka(IN_BATCH, widths, weights)


def test_a_width_above_the_vectors_is_refused():
    with pytest.raises(ValueError, match="16 is more than the 8"):
        matryoshka(IN_BATCH, [16, 8])(Q, P)
