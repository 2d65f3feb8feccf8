"""Every dense family can be upcycled: in every layer, exactly, with and without its biases."""

from __future__ import annotations

import pytest
import torch

from embedexp.backbone.counts import parameter_counts as by_arithmetic
from embedexp.backbone.families import family_of
from embedexp.embedding import build_embedder
from embedexp.routing import parameter_counts as by_model
from embedexp.routing.experts import MixtureOfExperts, TaskExperts

from ..backbone.architectures import ARCHITECTURES, CAUSAL, OWN_EXPERTS
from ..backbone.options import model_config
from .test_upcycling import batch

FAMILIES = sorted(set(ARCHITECTURES) - OWN_EXPERTS)
BIASED = {"bert", "xlm-roberta", "jina_embeddings_v3"}
"""Families whose small architectures have biases in their MLPs."""
TEXTS = batch([0, 1, 2, 3, 0])


def config(family, option="dense", **changes):
    return model_config(
        "tiny",
        option,
        mask_schedule="causal" if family in CAUSAL else "bidirectional",
        changes={
            "backbone.architecture": dict(ARCHITECTURES[family]),
            "backbone.dropout": 0.0,
            "embedding.query_tokens": 32,
            "embedding.document_tokens": 32,
            **{f"routing.{key}": value for key, value in changes.items()},
        },
    )


def mlps(embedder):
    family = family_of({"model_type": embedder.model.config.model_type})
    blocks = embedder.model.get_submodule(family.blocks)
    return [block.get_submodule(family.mlp) for block in blocks]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("renormalize", ["topk", "function_preserving"])
def test_every_layer_holds_exact_copies_and_computes_what_it_did(family, renormalize):
    changes = {"placement": "every", "num_experts": 4, "renormalize": renormalize}
    dense = build_embedder(config(family))
    routed = build_embedder(config(family, "moe", **changes, router_std=0.5))
    torch.testing.assert_close(routed(TEXTS).vectors, dense(TEXTS).vectors, atol=1e-5, rtol=0)
    layers = mlps(routed)
    assert len(layers) == 3
    assert all(isinstance(layer, MixtureOfExperts) for layer in layers)
    weights = dict(dense.model.named_parameters())
    for layer in layers:
        first = layer.experts[0].state_dict()
        assert first
        for expert in layer.experts:
            assert all(torch.equal(v, first[k]) for k, v in expert.state_dict().items())
        for value in first.values():  # and these are the dense model's
            same = [w for w in weights.values() if w.shape == value.shape]
            assert any(torch.equal(value, w) for w in same)


@pytest.mark.parametrize("family", FAMILIES)
def test_shared_output_leaves_no_bias_in_an_expert(family):
    per_expert, shared = (
        config(family, "moe", placement="every", num_experts=4, biases=biases)
        for biases in ("per_expert", "shared_output")
    )
    model = build_embedder(shared)
    for layer in mlps(model):
        assert all(p.ndim == 2 for p in layer.experts.parameters())
        assert torch.equal(layer.bias, torch.zeros(32))
    assert by_arithmetic(shared) == by_model(model)
    had = [p for layer in mlps(build_embedder(per_expert)) for p in layer.experts.parameters()]
    assert any(p.ndim == 1 for p in had) is (family in BIASED)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("option", ["moe", "expert_choice", "mote"])
def test_untouched_experts_get_no_gradient(family, option):
    model = build_embedder(config(family, option, placement="every"))
    texts = batch([1, 1, 1])
    embeddings = model(texts)
    embeddings.vectors[:, 0].sum().backward()
    kinds = (TaskExperts,) if option == "mote" else (type(mlps(model)[0]),)
    found = [m for m in model.modules() if isinstance(m, kinds)]
    loads = embeddings.router.loads if embeddings.router else [[0, 1, 0, 0]] * len(found)
    untouched = 0
    for module, load in zip(found, loads, strict=True):
        for expert, count in zip(module.experts, load, strict=True):
            norms = [0.0 if p.grad is None else p.grad.norm().item() for p in expert.parameters()]
            if int(count) == 0:
                untouched += 1
                assert sum(norms) == 0
            elif norms:
                assert sum(norms) > 0
    if option == "mote":
        assert untouched == 3 * len(found) >= 9
