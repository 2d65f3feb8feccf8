from __future__ import annotations

from math import log

import pytest
import torch

from embedexp.routing import RouterOutput, router_statistics


def router(*layers):
    return RouterOutput(
        probabilities=[p for p, _ in layers], loads=[torch.tensor(load) for _, load in layers]
    )


def test_figures_are_means_over_layers():
    sure = torch.tensor([[1.0, 0, 0, 0]] * 3)
    undecided = torch.full((3, 4), 0.25)
    found = router_statistics(router((sure, [6, 0, 0, 0]), (undecided, [3, 1, 1, 1])))
    assert found == pytest.approx(
        {
            "max_load": (1 + 0.5) / 2,
            "min_load": (0 + 1 / 6) / 2,
            "entropy": log(4) / 2,
            "dead": (3 / 4) / 2,
        }
    )
