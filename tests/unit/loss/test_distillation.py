"""Distillation compares the teacher's scores with the student's, where there are any."""

from __future__ import annotations

import math

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import DistillKLDivLoss, MarginMSELoss
from sentence_transformers.util import pairwise_cos_sim

from embedexp.config import UserError
from embedexp.loss import distillation
from embedexp.loss.distillation import DistillationLoss
from embedexp.loss.infonce import InfoNCELoss

from .references import batch_of, mat

NAN = float("nan")
KEYS = [(i, -1) for i in range(4)], [(10 + i, -1) for i in range(4)]
HARD = [[(20 + 2 * i, -1), (21 + 2 * i, -1)] for i in range(4)]
TEACHER = [[3.0, 1.0, 0.5], [2.0, 2.5, -1.0], [0.1, 0.0, 0.2], [5.0, 4.0, -4.0]]
VECTORS = torch.cat([mat(4, 8, 0.3), mat(4, 8, 1.1), mat(8, 8, 2.9)])


def theirs(loss_class, gradient_of, **options):
    model = torch.nn.Identity()
    loss = loss_class(model, similarity_fct=pairwise_cos_sim, **options)
    queries, positives, hard = gradient_of.split([4, 4, 8])
    hard = hard.view(4, 2, 8)
    teacher = torch.tensor(TEACHER, dtype=torch.float64)
    return loss.compute_loss_from_embeddings([queries, positives, hard[:, 0], hard[:, 1]], teacher)


@pytest.mark.parametrize("temperatures", [(1.0, 1.0), (0.2, 1.5)])
def test_kl_is_that_of_sentence_transformers_without_the_factor_temperature_squared(temperatures):
    student, teacher = temperatures
    a, b = (VECTORS.clone().requires_grad_() for _ in range(2))
    expected = theirs(DistillKLDivLoss, a, student_temperature=student, teacher_temperature=teacher)
    found = DistillationLoss("kl", student, teacher)(b, batch_of(*KEYS, HARD, None, None, TEACHER))
    assert found.total.item() == pytest.approx(expected.item() / student**2, rel=1e-6)
    expected.backward()
    found.total.backward()
    torch.testing.assert_close(b.grad, a.grad / student**2, rtol=1e-6, atol=1e-9)


def test_the_gradient_of_kl_is_that_of_flagembedding():
    # Its kl_div: -mean over queries of sum(softmax(teacher) log_softmax(student / temperature)).
    student = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    teacher = torch.tensor(TEACHER, dtype=torch.float64)
    cross = -(teacher.softmax(1) * (student / 0.02).log_softmax(1)).sum(1).mean()
    (expected,) = torch.autograd.grad(cross, student)
    (found,) = torch.autograd.grad(distillation(student, teacher, temperature=0.02), student)
    torch.testing.assert_close(found, expected)


def test_margin_mse_is_that_of_sentence_transformers():
    a, b = (VECTORS.clone().requires_grad_() for _ in range(2))
    expected = theirs(MarginMSELoss, a)
    batch = batch_of(*KEYS, HARD, None, None, TEACHER)
    found = DistillationLoss("margin_mse", 1.0, 1.0)(b, batch).total
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    expected.backward()
    found.backward()
    torch.testing.assert_close(b.grad, a.grad, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("form", ["kl", "margin_mse"])
def test_candidates_and_rows_without_a_score_take_no_part(form):
    student = torch.tensor(
        [[0.9, 0.1, 0.5], [0.8, 0.7, 0.2], [0.5, 0.4, 0.3], [0.2, 0.1, 0.0]], requires_grad=True
    )
    teacher = torch.tensor([[1.0, 0.2, NAN], [0.5, 0.1, 0.3], [NAN, 0.4, 0.1], [0.3, NAN, NAN]])
    found = distillation(student, teacher, form, temperature=0.5)

    def kl(ours, theirs):
        def softmax(x):
            total = sum(map(math.exp, x))
            return [math.exp(v) / total for v in x]

        p, q = softmax(theirs), softmax([v / 0.5 for v in ours])
        return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))

    if form == "kl":
        first = kl([0.9, 0.1], [1.0, 0.2])
        expected = (first + kl([0.8, 0.7, 0.2], [0.5, 0.1, 0.3])) / 2
    else:
        ours = [(0.9 - 0.1) / 0.5, (0.8 - 0.7) / 0.5, (0.8 - 0.2) / 0.5]
        margins = [0.8, 0.4, 0.2]
        expected = sum((a - b) ** 2 for a, b in zip(ours, margins, strict=True)) / 3
    assert found.item() == pytest.approx(expected, rel=1e-5)
    found.backward()
    assert torch.isfinite(student.grad).all()
    assert (student.grad[2:] == 0).all()
    assert student.grad[0, 2] == 0


def test_scores_of_negatives_that_the_batch_leaves_out_are_not_read():
    ragged = [row[: i % 3] for i, row in enumerate(HARD)]  # 0, 1, 2 and 0 of them
    vectors = VECTORS[: 8 + 3]
    batch = batch_of(*KEYS, ragged, None, None, TEACHER)
    found = DistillationLoss("margin_mse", 1.0, 1.0)(vectors, batch).total
    unit = torch.nn.functional.normalize(vectors, dim=1)
    margins = [
        (unit[i] @ unit[4 + i] - unit[i] @ unit[8 + slot]).item() - (TEACHER[i][0] - TEACHER[i][k])
        for i, slot, k in ((1, 0, 1), (2, 1, 1), (2, 2, 2))
    ]
    assert found.item() == pytest.approx(sum(m * m for m in margins) / 3, rel=1e-6)


def test_an_infonce_beside_it_counts_with_its_weight():
    batch = batch_of(*KEYS, HARD, None, None, TEACHER)
    beside = InfoNCELoss(0.05, ["other_positives", "own_hard_negatives"])
    alone = DistillationLoss("kl", 0.1, 1.0)(VECTORS, batch)
    both = DistillationLoss("kl", 0.1, 1.0, beside, 0.3)(VECTORS, batch)
    expected = alone.total + 0.3 * beside(VECTORS, batch).total
    assert both.total.item() == pytest.approx(expected.item())
    assert set(both.terms) == {"kl", "infonce"}


def test_examples_that_happen_to_have_no_scored_negative_teach_nothing():
    vectors = VECTORS.clone().requires_grad_()
    batch = batch_of(*KEYS, HARD, None, None, [[NAN] * 3] * 4)
    output = DistillationLoss("kl", 0.02, 1.0)(vectors, batch)
    output.total.backward()
    assert output.total == 0.0
    assert not vectors.grad.any()


@pytest.mark.parametrize(
    "batch",
    [
        batch_of(*KEYS, HARD),
        batch_of(*KEYS, None, None, None, [[1.0]] * 4),
    ],
    ids=["no scores", "no negatives"],
)
def test_a_batch_without_teacher_scores_is_refused(batch):
    with pytest.raises(UserError, match="without teacher scores"):
        DistillationLoss("kl", 0.02, 1.0)(VECTORS[: len(batch.tokens)], batch)
