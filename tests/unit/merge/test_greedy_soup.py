"""The greedy soup keeps what helps."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch

from embedexp.config.errors import UserError
from embedexp.config.schema.merge import GreedySoup
from embedexp.merge import merge

from .conftest import weights

TENSOR = "encoder.layer.0.output.dense.weight"


def soup(dense, output, scores, gain=0.0):
    """A soup of three models; `scores` are those of sets of models, by their numbers."""
    states = [weights(path)[TENSOR] for path in dense[:3]]
    means = {
        members: torch.stack([states[i] for i in members]).mean(0)
        for size in (1, 2, 3)
        for members in combinations(range(3), size)
    }
    asked = []

    def score(folder):
        found = weights(folder)[TENSOR]
        (members,) = (m for m, mean in means.items() if torch.allclose(found, mean, atol=1e-7))
        asked.append(members)
        return scores[members]

    option = GreedySoup(name="greedy_soup", inputs=dense[:3], tasks=None, min_gain=gain)
    record = merge(option, output, score=score)
    return record, asked, means


ALONE = {(0,): 0.5, (1,): 0.7, (2,): 0.6}


def test_models_join_in_the_order_of_their_scores_unless_the_score_falls(dense, tmp_path):
    scores = {**ALONE, (1, 2): 0.65, (0, 1): 0.75}  # 2 is better alone, and harms
    record, asked, means = soup(dense, tmp_path / "m", scores)
    assert asked == [(0,), (1,), (2,), (1, 2), (0, 1)]
    assert [(d["model"], d["score"], d["kept"]) for d in record.decisions] == [
        (dense[1], 0.7, True),
        (dense[2], 0.65, False),
        (dense[0], 0.75, True),
    ]
    assert [each.weight for each in record.inputs] == [0.5, 0.5, 0.0]
    assert torch.allclose(weights(tmp_path / "m")[TENSOR], means[0, 1], atol=1e-7)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]  # no candidate is left


def test_min_gain_asks_for_more_than_no_loss(dense, tmp_path):
    scores = {**ALONE, (1, 2): 0.7, (0, 1, 2): 0.71, (0, 1): 0.71}
    record, _, _ = soup(dense, tmp_path / "a", scores)
    assert [d["kept"] for d in record.decisions] == [True, True, True]
    record, _, _ = soup(dense, tmp_path / "b", scores, gain=0.05)
    assert [d["kept"] for d in record.decisions] == [True, False, False]


def test_without_scores_there_is_no_soup(dense, tmp_path):
    option = GreedySoup(name="greedy_soup", inputs=dense[:2], tasks=None, min_gain=0.0)
    with pytest.raises(UserError, match="needs scores"):
        merge(option, tmp_path / "m")
