from __future__ import annotations

import torch

from embedexp.routing.experts import MixtureOfExperts

from .test_moe import told_apart
from .test_upcycling import MIXED, build


def test_each_token_meets_its_most_probable_expert_weighted_by_its_probability():
    model = build("tiny", "switch", placement=[0], renormalize="none", router_std=0.3)
    module = next(m for m in model.modules() if isinstance(m, MixtureOfExperts))
    told_apart(module)
    rows = torch.randn(40, 128)
    p = module.router(rows).softmax(-1)
    best = p.argmax(-1)
    assert len(best.unique()) > 3
    expected = torch.stack(
        [p[i, e] * module.experts[e](rows[i]) for i, e in enumerate(best.tolist())]
    )
    torch.testing.assert_close(module(rows), expected, atol=1e-5, rtol=1e-5)


def test_it_starts_as_the_dense_model_and_its_router_learns():
    model = build("tiny", "switch", placement="every")
    dense = build("tiny")(MIXED).vectors
    torch.testing.assert_close(model(MIXED).vectors, dense, atol=1e-5, rtol=0)
    modules = [m for m in model.modules() if isinstance(m, MixtureOfExperts)]
    for module in modules:
        told_apart(module, 0.02)
    model(MIXED).vectors[:, 0].sum().backward()
    assert all(module.router.weight.grad.norm() > 0 for module in modules)


def test_no_wider_choice_can_be_asked_for():
    from embedexp.config.schema.routing import Switch

    assert "top_k" not in Switch.model_fields
