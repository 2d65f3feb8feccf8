"""Each task has its own loss; a batch of several is their weighted sum."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from embedexp.config import compose
from embedexp.loss import angle_similarity, build, cosent, info_nce
from embedexp.loss.cosent import CoSENTLoss
from embedexp.loss.infonce import InfoNCELoss
from embedexp.loss.task_aware import TaskAwareLoss

from .references import batch_of

TASKS = ["retrieval", "sts", "retrieval", "classification", "sts", "classification", "sts"]
NAN = float("nan")


def mixed():
    """Seven examples of three tasks, hard negatives for those of retrieval."""
    count = len(TASKS)
    hard = [[(50 + i, -1)] if task == "retrieval" else [] for i, task in enumerate(TASKS)]
    labels = [(i, i % 2 if task == "classification" else -1) for i, task in enumerate(TASKS)]
    positives = [(20 + i, label) for i, (_, label) in enumerate(labels)]
    scores = [[0.9, 0.1, 0.4][i // 3] if task == "sts" else NAN for i, task in enumerate(TASKS)]
    batch = batch_of(labels, positives, hard, TASKS, scores)
    vectors = torch.randn(2 * count + 2, 6, generator=torch.Generator().manual_seed(0)).double()
    return batch, vectors


@pytest.mark.parametrize("sts", ["cosent", "angle"])
def test_a_batch_of_several_tasks_is_the_weighted_sum_of_their_losses(sts):
    overrides = ["loss.weights.sts=0.8", f"loss.sts={sts}", "loss.weights.classification=2"]
    module = build(compose(["loss=task_aware", *overrides]).loss)
    batch, vectors = mixed()
    leaf = vectors.clone().requires_grad_()
    output = module(leaf, batch)

    other = vectors.clone().requires_grad_()
    q, p, n = other.split([7, 7, 2])
    retrieval = info_nce(
        q[[0, 2]],
        p[[0, 2]],
        n[:, None],
        temperature=0.05,
        denominator=["other_positives", "own_hard_negatives", "other_hard_negatives"],
    )
    # Examples 3 and 5 have the same label, which leaves no negative.
    classes = info_nce(
        q[[3, 5]],
        p[[3, 5]],
        temperature=0.05,
        denominator=["other_positives"],
        positive_ids=torch.tensor([1, 1]),
    )
    a, b = q[[1, 4, 6]], p[[1, 4, 6]]
    similarity = {"cosent": F.cosine_similarity, "angle": angle_similarity}[sts](a, b)
    pairs = cosent(similarity, batch.scores[[1, 4, 6]])
    expected = retrieval + 2 * classes + 0.8 * pairs
    assert classes.item() == 0
    assert output.total.item() == pytest.approx(expected.item(), rel=1e-6)
    assert output.terms[f"sts_{sts}"].item() == pytest.approx(pairs.item(), rel=1e-6)
    assert set(output.terms) == {"retrieval_infonce", "classification_infonce", f"sts_{sts}"}
    output.total.backward()
    expected.backward()
    torch.testing.assert_close(leaf.grad, other.grad, rtol=1e-6, atol=1e-9)


def test_tasks_have_their_own_temperature_denominator_and_margin():
    settings = [
        "loss.temperatures.clustering=0.5",
        "loss.denominators.clustering=[other_queries]",
        "loss.false_negative_margins.clustering=0.1",
    ]
    module = build(compose(["loss=task_aware", *settings]).loss)
    keys = [(i, -1) for i in range(8)], [(10 + i, -1) for i in range(8)]
    vectors = torch.randn(16, 6, generator=torch.Generator().manual_seed(1))
    values = {}
    for task in ("clustering", "retrieval"):
        values[task] = module(vectors, batch_of(*keys, tasks=[task] * 8)).total.item()
    own = {"temperature": 0.5, "denominator": ["other_queries"], "false_negative_margin": 0.1}
    assert values["clustering"] == pytest.approx(info_nce(vectors[:8], vectors[8:], **own).item())
    plain = {"temperature": 0.05, "denominator": ["other_positives"]}
    assert values["retrieval"] == pytest.approx(info_nce(vectors[:8], vectors[8:], **plain).item())


def test_labels_as_documents_are_no_negatives_of_their_own_class():
    """Classification with label names as documents: the key of the text tells equal labels."""
    labels = [0, 1, 0, 2, 1, 0]
    names = torch.randn(3, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    texts = torch.randn(6, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    batch = batch_of(
        [(i, -1) for i in range(6)],
        [(100 + label, -1) for label in labels],
        tasks=["classification"] * 6,
    )
    module = build(compose(["loss=task_aware"]).loss)
    value = module(torch.cat([texts, names[labels]]), batch).total.item()
    cosines = F.normalize(texts, dim=1) @ F.normalize(names, dim=1).T
    expected = 0.0
    for i, label in enumerate(labels):
        others = [cosines[i, other].item() for other in labels if other != label]
        own = cosines[i, label].item()
        expected += math.log(1 + sum(math.exp((x - own) / 0.05) for x in others)) / 6
    assert value == pytest.approx(expected, rel=1e-6)


def test_conan_v1_balances_across_devices_as_a_batch_of_two_tasks():
    """-(1/n) sum log(e^s+ / (e^s+ + sum over N devices and n documents e^s-)) + 0.8 CoSENT."""
    hard = InfoNCELoss(0.05, ["own_hard_negatives", "other_hard_negatives"])
    module = TaskAwareLoss(
        {"retrieval": hard, "sts": CoSENTLoss(20.0)}, {"retrieval": 1.0, "sts": 0.8}
    )
    devices, per_device, width = 2, 3, 6
    generator = torch.Generator().manual_seed(4)
    count = devices * per_device
    retrieval = torch.randn(3 * count, width, generator=generator, dtype=torch.float64)
    pairs = torch.randn(8, width, generator=generator, dtype=torch.float64)
    q, p, n = retrieval.split([count, count, count])
    batch = batch_of(
        [(i, -1) for i in range(count + 4)],
        [(100 + i, -1) for i in range(count + 4)],
        [[(200 + i, -1)] for i in range(count)] + [[]] * 4,
        ["retrieval"] * count + ["sts"] * 4,
        [NAN] * count + [0.1, 0.9, 0.5, 0.3],
    )
    found = module(torch.cat([q, pairs[:4], p, pairs[4:], n]), batch).total.item()

    def cosine(a, b):
        return float(a @ b / a.norm() / b.norm())

    expected = 0.0
    for i in range(count):
        positive = math.exp(cosine(q[i], p[i]) / 0.05)
        shared = [
            math.exp(cosine(q[i], n[k * per_device + j]) / 0.05)
            for k in range(devices)
            for j in range(per_device)
        ]
        expected -= math.log(positive / (positive + sum(shared))) / count
    scores, labels = [cosine(pairs[i], pairs[4 + i]) for i in range(4)], [0.1, 0.9, 0.5, 0.3]
    ranked = sum(
        math.exp(20 * (scores[i] - scores[j]))
        for i in range(4)
        for j in range(4)
        if labels[i] < labels[j]
    )
    assert found == pytest.approx(expected + 0.8 * math.log1p(ranked), rel=1e-6)
