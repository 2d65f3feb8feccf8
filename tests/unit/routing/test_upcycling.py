from __future__ import annotations

import copy

import pytest
import torch

from embedexp import routing
from embedexp.batching.token_batch import TokenBatch
from embedexp.config.errors import UserError
from embedexp.embedding import build_embedder
from embedexp.routing.experts import MixtureOfExperts, TaskExperts

from ..backbone.options import FAMILIES, NO_DROPOUT, model_config

QUERY, DOCUMENT, CLASSIFICATION, CLUSTERING = range(4)


def build(family, option="dense", **changes):
    changes = {f"routing.{key}": value for key, value in changes.items()}
    if "llama" not in family:
        changes |= NO_DROPOUT
    return build_embedder(model_config(family, option, changes=changes))


def batch(tasks, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 12, (len(tasks),), generator=generator).tolist()
    texts = [torch.randint(5, 8000, (n,), generator=generator).tolist() for n in lengths]
    return TokenBatch.pack(texts, list(tasks), [0] * len(tasks))


MIXED = batch([CLUSTERING, QUERY, DOCUMENT, QUERY, CLASSIFICATION, CLUSTERING, DOCUMENT])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("placement", ["every", "every_other", [0]])
def test_task_experts_start_as_the_dense_model_bit_for_bit(family, placement):
    dense, mote = build(family), build(family, "mote", placement=placement)
    for tasks in ([t] * 5 for t in range(4)):
        same = batch(tasks)
        assert torch.equal(mote(same).vectors, dense(same).vectors)
    torch.testing.assert_close(mote(MIXED).vectors, dense(MIXED).vectors, atol=1e-6, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("top_k", [1, 2, 8])
def test_renormalised_token_experts_start_as_the_dense_model(family, top_k):
    dense, moe = build(family), build(family, "moe", top_k=top_k, placement="every")
    torch.testing.assert_close(moe(MIXED).vectors, dense(MIXED).vectors, atol=1e-5, rtol=0)


def test_raw_softmax_weights_do_not_preserve_the_function():
    dense, moe = build("tiny"), build("tiny", "moe", renormalize="none")
    assert (moe(MIXED).vectors - dense(MIXED).vectors).abs().max() > 1e-3


def test_token_experts_compute_the_weighted_sum_of_the_chosen():
    moe = build("tiny", "moe", renormalize="none", router_std=1.0).model.encoder.layer[1]
    module = moe.intermediate
    for expert in module.experts:
        torch.nn.init.normal_(expert.up.weight, std=0.1)
    rows = torch.randn(1, 50, 128)
    probabilities = module.router(rows[0]).softmax(-1)
    expected = torch.zeros(50, 128)
    for row in range(50):
        for e in probabilities[row].topk(2).indices.tolist():
            expected[row] += probabilities[row, e] * module.experts[e](rows[0, row])
    torch.testing.assert_close(module(rows)[0], expected, atol=1e-5, rtol=0)


def test_token_experts_gradients_are_those_of_the_plain_formula():
    module = build("tiny", "moe", router_std=1.0).model.encoder.layer[1].intermediate
    rows = torch.randn(40, 128, requires_grad=True)
    module(rows).square().sum().backward()
    ours = [rows.grad.clone(), *(p.grad.clone() for p in module.parameters())]
    rows.grad = None
    module.zero_grad()
    weights, chosen = module.router(rows).softmax(-1).topk(2)
    weights = weights / weights.sum(-1, keepdim=True)
    outputs = torch.stack([expert(rows) for expert in module.experts], 1)
    picked = outputs.gather(1, chosen[..., None].expand(-1, -1, 128))
    (picked * weights[..., None]).sum(1).square().sum().backward()
    theirs = [rows.grad, *(p.grad for p in module.parameters())]
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_experts_of_the_tasks_present_learn(family):
    mote = build(family, "mote")
    mote(batch([QUERY, DOCUMENT, QUERY])).vectors.sum(1).square().mean().backward()
    groups = [m for m in mote.modules() if isinstance(m, TaskExperts)]
    assert len(groups) == 2 * 3  # layers, and MLP with both norms
    for group in groups:
        norms = [
            sum(0.0 if p.grad is None else p.grad.norm().item() for p in expert.parameters())
            for expert in group.experts
        ]
        assert norms[QUERY] > 0
        assert norms[DOCUMENT] > 0
        assert norms[CLASSIFICATION] == norms[CLUSTERING] == 0


def test_the_task_decides_once_experts_differ():
    mote = build("tiny", "mote")
    tasks = torch.arange(4)
    texts = [[7, 8, 9, 10]] * 4
    with torch.no_grad():
        for module in mote.modules():
            if isinstance(module, TaskExperts):
                for e, expert in enumerate(module.experts):
                    for p in expert.parameters():
                        p.mul_(1 + 0.1 * e)
    together = mote(TokenBatch.pack(texts, tasks.tolist(), [0] * 4)).vectors
    backwards = mote(TokenBatch.pack(texts, tasks.flip(0).tolist(), [0] * 4)).vectors
    torch.testing.assert_close(backwards, together.flip(0), atol=1e-6, rtol=0)
    assert torch.pdist(together).min() > 1e-3


def test_tasks_may_share_an_expert():
    experts = {"search_query": 0, "search_document": 0, "classification": 1, "clustering": 1}
    mote = build("tiny", "mote", experts=experts)
    assert {len(m.experts) for m in mote.modules() if isinstance(m, TaskExperts)} == {2}
    mote(batch([CLASSIFICATION, CLUSTERING])).vectors[:, 0].sum().backward()
    for group in (m for m in mote.modules() if isinstance(m, TaskExperts)):
        unused, shared = (
            sum(0.0 if p.grad is None else p.grad.norm().item() for p in expert.parameters())
            for expert in group.experts
        )
        assert unused == 0
        assert shared > 0
    with torch.no_grad():
        for module in (m for m in mote.modules() if isinstance(m, TaskExperts)):
            for p in module.experts[1].parameters():
                p.mul_(1.1)
    same = TokenBatch.pack([[7, 8, 9]] * 4, [0, 1, 2, 3], [0] * 4)
    query, document, label, cluster = mote(same).vectors
    torch.testing.assert_close(query, document, atol=1e-6, rtol=0)
    torch.testing.assert_close(label, cluster, atol=1e-6, rtol=0)
    assert (query - label).norm() > 1e-3


def test_a_task_without_an_expert_is_named():
    mote = build("tiny", "mote", experts={"search_query": 0, "search_document": 1})
    mote(batch([QUERY, DOCUMENT]))
    with pytest.raises(UserError, match="no expert for clustering"):
        mote(MIXED)


@pytest.mark.parametrize(
    ("option", "changes", "message"),
    [
        ("mote", {"experts": {"search_query": 0, "search_document": 2}}, "no task uses expert 1"),
        ("mote", {"experts": {"clusterin": 0}}, "did you mean clustering"),
        ("mote", {"placement": [2]}, "names layer 2, the last is 1"),
        ("moe", {"placement": []}, "routes none of the 2 layers"),
        ("moe", {"top_k": 9}, "more than routing.num_experts=8"),
    ],
)
def test_options_that_do_not_fit_are_explained(option, changes, message):
    with pytest.raises(UserError, match=message) as error:
        build("tiny", option, **changes)
    assert len(str(error.value).splitlines()) <= 3


@pytest.mark.parametrize(
    ("placement", "layers"), [("every", [0, 1]), ("every_other", [1]), ([0], [0])]
)
def test_placement_routes_those_layers_and_no_others(placement, layers):
    moe = build("tiny", "moe", placement=placement)
    routed = [
        i
        for i, block in enumerate(moe.model.encoder.layer)
        if any(isinstance(m, MixtureOfExperts) for m in block.modules())
    ]
    assert routed == layers
    assert len(moe(MIXED).router.probabilities) == len(layers)


def test_routers_start_with_the_asked_spread_and_the_seed():
    option = {"num_experts": 64, "router_std": 0.5}
    weight = build("tiny", "moe", **option).model.encoder.layer[1].intermediate.router.weight
    assert weight.std().item() == pytest.approx(0.5, rel=0.05)
    again = build("tiny", "moe", **option).model.encoder.layer[1].intermediate.router.weight
    assert torch.equal(weight, again)


def test_experts_are_independent_copies():
    module = build("tiny", "moe").model.encoder.layer[1].intermediate
    first, second = module.experts[0], module.experts[1]
    assert all(
        torch.equal(a, b) and a is not b
        for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )


def test_balance_term_is_weighted_and_only_for_token_routing():
    moe = build("tiny", "moe", balance_coefficient=0.5)
    router = moe(MIXED).router
    value = routing.auxiliary(moe.config.routing, router)
    plain = routing.load_balancing_loss(
        router.probabilities, router.assignments, normalization="switch"
    )
    assert value.item() == pytest.approx(0.5 * plain.item())
    assert routing.auxiliary(build("tiny").config.routing, None) is None


def test_a_deep_copy_routes_by_itself():
    mote = build("tiny", "mote")
    twin = copy.deepcopy(mote)
    assert torch.equal(twin(MIXED).vectors, mote(MIXED).vectors)
