"""Weights of the chosen experts, biases, the router's first weights, and the z-loss."""

from __future__ import annotations

import pytest
import torch

from embedexp import routing
from embedexp.config import compose
from embedexp.routing import z_loss
from embedexp.routing.experts import MixtureOfExperts

from ..backbone.options import FAMILIES
from .test_balance import sines
from .test_upcycling import MIXED, build


def mixture(**changes):
    """The routed MLP of a small model, and that model."""
    model = build("tiny", "moe", **{"placement": [1], **changes})
    return next(m for m in model.modules() if isinstance(m, MixtureOfExperts)), model


def told_apart(module, scale=0.1):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for expert in module.experts:
            for parameter in expert.parameters():
                parameter.add_(scale * torch.randn(parameter.shape, generator=generator))
    return module


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("top_k", [1, 2, 8])
def test_function_preserving_upcycling_starts_as_the_dense_model(family, top_k):
    changes = {"renormalize": "function_preserving", "router_std": 0.5}
    moe = build(family, "moe", top_k=top_k, placement="every", **changes)
    dense = build(family)
    torch.testing.assert_close(moe(MIXED).vectors, dense(MIXED).vectors, atol=1e-5, rtol=0)


def test_function_preserving_upcycling_starts_with_the_dense_gradient():
    module, _ = mixture(renormalize="function_preserving", router_std=0.5)
    rows, grad = torch.randn(30, 128, requires_grad=True), torch.randn(30, 128)
    ours = torch.autograd.grad(module(rows), rows, grad)[0]
    dense = torch.autograd.grad(module.experts[0](rows), rows, grad)[0]
    torch.testing.assert_close(ours, dense, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("top_k", [1, 2])
def test_function_preserving_weights_are_the_softmax_over_what_the_first_router_chose(top_k):
    module, _ = mixture(renormalize="function_preserving", router_std=0.5, top_k=top_k)
    told_apart(module)
    first = module.router.weight.detach().clone().double()
    with torch.no_grad():
        module.router.weight.add_(0.5 * torch.randn_like(module.router.weight))
    rows = torch.randn(20, 128)
    experts = [expert.double() for expert in told_apart(module, 0).experts]
    expected = torch.zeros(20, 128, dtype=torch.float64)
    totals = []
    for i, row in enumerate(rows.double()):
        p = (module.router.weight.detach().double() @ row).softmax(0)
        scale = (first @ row).softmax(0).topk(top_k).values.sum()
        chosen = p.topk(top_k).indices.tolist()
        totals.append(sum(p[e] for e in chosen) / scale)
        expected[i] = sum(p[e] / scale * experts[e](row) for e in chosen)
    for expert in experts:
        expert.float()
    torch.testing.assert_close(module(rows).double(), expected.detach(), atol=1e-5, rtol=1e-5)
    assert max(abs(total.item() - 1) for total in totals) > 0.05  # later they need not sum to 1


@pytest.mark.parametrize(
    ("renormalize", "learns"), [("topk", False), ("none", True), ("function_preserving", True)]
)
def test_the_router_of_one_expert_per_token_learns_only_if_its_weight_can_move(renormalize, learns):
    module, _ = mixture(renormalize=renormalize, top_k=1)
    told_apart(module)(torch.randn(20, 128)).square().sum().backward()
    assert (module.router.weight.grad.norm().item() > 1e-2) is learns


@pytest.mark.parametrize("family", FAMILIES)
def test_every_expert_is_an_exact_copy_and_an_untouched_one_gets_no_gradient(family):
    dense, moe = build(family), build(family, "moe", placement="every", top_k=1)
    originals = [block.state_dict() for block in blocks(dense)]
    modules = [m for m in moe.modules() if isinstance(m, MixtureOfExperts)]
    assert len(modules) == len(originals) == 2
    for module, original in zip(modules, originals, strict=True):
        for expert in module.experts:
            for value in expert.state_dict().values():
                alike = [v for v in original.values() if v.shape == value.shape]
                assert any(torch.equal(value, v) for v in alike)
    with torch.no_grad():
        for module in modules:  # all logits are equal, so the same expert gets every token
            module.router.weight.zero_()
    embeddings = moe(MIXED)
    embeddings.vectors.sum(1).square().mean().backward()
    for module, load in zip(modules, embeddings.router.loads, strict=True):
        gradients = [
            sum(p.grad.abs().sum().item() for p in e.parameters() if p.grad is not None)
            for e in module.experts
        ]
        touched = load > 0
        assert touched.sum() == 1
        assert (torch.tensor(gradients) > 0).tolist() == touched.tolist()


def blocks(model):
    inner = model.model
    return inner.encoder.layer if hasattr(inner, "encoder") else inner.layers


def test_shared_output_drops_the_biases_for_one_that_is_added_once():
    module, model = mixture(biases="shared_output", renormalize="none")
    assert not any(name.endswith("bias") for name, _ in module.experts.named_parameters())
    assert torch.equal(module.bias, torch.zeros(128))
    per_expert, _ = mixture(renormalize="none")
    for a, b in zip(module.experts, per_expert.experts, strict=True):
        assert torch.equal(a.up.weight, b.up.weight)
        assert torch.equal(a.down.weight, b.down.weight)
    rows = torch.randn(10, 128)
    before = module(rows)
    with torch.no_grad():
        module.bias.add_(torch.arange(128.0))
    torch.testing.assert_close(module(rows) - before, torch.arange(128.0).expand(10, -1))
    model(MIXED).vectors[:, 0].sum().backward()
    assert module.bias.grad.norm() > 0


def test_shared_output_adds_a_bias_where_the_dense_mlp_had_none():
    moe = build("tiny_llama", "moe", biases="shared_output", placement="every")
    dense = build("tiny_llama")
    torch.testing.assert_close(moe(MIXED).vectors, dense(MIXED).vectors, atol=1e-5, rtol=0)
    assert sum(m.bias.numel() for m in moe.modules() if isinstance(m, MixtureOfExperts)) == 2 * 128


def test_uniform_routers_start_with_the_asked_spread():
    module, _ = mixture(router_init="uniform", router_std=0.5, num_experts=64)
    weight = module.router.weight
    assert weight.std().item() == pytest.approx(0.5, rel=0.05)
    assert weight.abs().max().item() <= 0.5 * 3**0.5
    normal, _ = mixture(router_std=0.5, num_experts=64)
    assert normal.router.weight.abs().max().item() > 0.5 * 3**0.5


def test_golden_values_of_the_z_loss():
    layers = [2 * sines(0.2), 2 * sines(1.3)]
    golden = [4.6192444704470494, 4.8269559811792435]
    for layer, value in zip(layers, golden, strict=True):
        assert z_loss([layer]).item() == pytest.approx(value, abs=1e-12)
    assert z_loss(layers).item() == pytest.approx(sum(golden) / 2, abs=1e-12)


def test_the_terms_are_weighted_and_add_up():
    model = build("tiny", "moe", z_loss_coefficient=0.25, balance_coefficient=0.5)
    router = model(MIXED).router
    terms = routing.auxiliary_terms(model.config.routing, router)
    assert terms["z"].item() == pytest.approx(0.25 * z_loss(router.logits).item())
    total = routing.auxiliary(model.config.routing, router)
    assert total.item() == pytest.approx(terms["balance"].item() + terms["z"].item())
    for layer, logits in zip(router.probabilities, router.logits, strict=True):
        torch.testing.assert_close(logits.softmax(-1), layer)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["routing.renormalize=none", "backbone=bert_base"], "MLP outputs about x 0.43"),
        (["routing.biases=shared_output"], "without the routed MLPs' biases"),
        ([], "starts as the dense model"),
    ],
)
def test_show_says_what_upcycling_changes(changes, words):
    from embedexp.config.show import show

    assert words in " ".join(show(compose(["routing=moe", *changes])).split())


def test_a_router_that_cannot_learn_and_a_balance_without_effect_are_told():
    options = ["routing=moe", "routing.top_k=1", "routing.balance_coefficient=0.0"]
    assert "routers do not learn" in " ".join(compose(options).warnings)
    all_of_them = compose(["routing=moe", "routing.top_k=8"])
    assert "has no effect" in " ".join(all_of_them.warnings)
    assert not compose(["routing=moe"]).warnings
