"""MoEE against its definition, on our own experts and on native ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from embedexp.batching.token_batch import TokenBatch
from embedexp.config import compose
from embedexp.config.errors import UserError
from embedexp.config.schema.embedding import MoEE, Prompts
from embedexp.embedding import load, moee, routers

from .conftest import PROMPTS, build
from .test_embedder import batch
from .test_saving import disturbed

BASE = {
    "vocab_size": 8192, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 48, "pad_token_id": 0, "bos_token_id": 2,
    "eos_token_id": 3, "max_position_embeddings": 256,
}  # fmt: skip
NATIVE: dict[str, dict[str, Any]] = {
    "olmoe": {"model_type": "olmoe", "num_experts": 6, "num_experts_per_tok": 2},
    "mixtral": {"model_type": "mixtral", "num_local_experts": 6, "num_experts_per_tok": 2},
    "qwen2_moe": {
        "model_type": "qwen2_moe", "num_experts": 6, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24,
        "decoder_sparse_step": 1,
    },
    "deepseek": {
        "model_type": "deepseek", "n_routed_experts": 6, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "n_shared_experts": 1, "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
    },
}  # fmt: skip


def option(**changes: Any) -> MoEE:
    content = {
        "name": "moee", "source": "concat", "router": "probabilities",
        "router_pooling": "last_token", "alpha": 1.0, "standardize": "none", "clean": False,
        "normalize": True,
        "width": None, "query_tokens": 64, "document_tokens": 64,
        "prompts": Prompts(search_query="", search_document="", classification="", clustering=""),
    }  # fmt: skip
    return MoEE(**(content | changes))


def native(family: str, **changes: Any):
    embedder = build(
        "tiny_llama", "dense", "causal", "moee",
        backbone__architecture=BASE | NATIVE[family], **changes,
    )  # fmt: skip
    return disturbed(embedder).eval()


@pytest.fixture
def given():
    """Hidden states, ends of the sequences, and what three layers of routers said."""
    from embedexp.routing import RouterOutput

    torch.manual_seed(0)
    logits = [torch.randn(9, experts) for experts in (3, 5, 2)]
    probabilities = [layer.softmax(-1) for layer in logits]
    router = RouterOutput(probabilities, [], logits)
    return torch.randn(9, 4), torch.tensor([0, 2, 3, 9]), router


@pytest.mark.parametrize("numbers", ["logits", "probabilities"])
def test_routing_weights_of_all_layers_in_order(given, numbers):
    hidden, ends, router = given
    layers = getattr(router, numbers)
    last = moee.combine(option(source="routing_weights", router=numbers), hidden, ends, router)
    assert torch.equal(last, torch.cat([layer[[1, 2, 8]] for layer in layers], dim=1))
    chosen = option(source="routing_weights", router=numbers, router_pooling="mean")
    found = moee.combine(chosen, hidden, ends, router)
    expected = torch.stack(
        [torch.cat([layer[a:b].mean(0) for layer in layers]) for a, b in ((0, 2), (2, 3), (3, 9))]
    )
    torch.testing.assert_close(found, expected)


def test_concat_puts_one_behind_the_other(given):
    hidden, ends, router = given
    found = moee.combine(option(alpha=4.0), hidden, ends, router)
    assert torch.equal(found[:, :4], hidden[[1, 2, 8]])
    weights = moee.combine(option(source="routing_weights"), hidden, ends, router)
    torch.testing.assert_close(found[:, 4:], 2 * weights)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_sum_adds_similarities(given, alpha):
    """Dot products are cos(hidden) + alpha cos(routing), cosines are that over 1 + alpha."""
    hidden, ends, router = given
    rows = moee.combine(option(source="sum", alpha=alpha), hidden, ends, router).double()
    parts = [
        moee.combine(option(source=source), hidden, ends, router).double()
        for source in ("hidden_state", "routing_weights")
    ]
    for i in range(3):
        for j in range(3):
            first, second = (torch.cosine_similarity(p[i], p[j], dim=0) for p in parts)
            expected = first + alpha * second
            torch.testing.assert_close(rows[i] @ rows[j], expected, atol=1e-6, rtol=0)
            cosine = torch.cosine_similarity(rows[i], rows[j], dim=0)
            torch.testing.assert_close(cosine, expected / (1 + alpha), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("over", "axis"), [("vector", 1), ("batch", 0)])
def test_standardizing_is_the_definition(over, axis):
    part = torch.randn(5, 7)
    rows = part.double().numpy()
    mean, spread = rows.mean(axis, keepdims=True), rows.std(axis, ddof=1, keepdims=True)
    expected = (rows - mean) / (spread + 1e-8)
    np.testing.assert_allclose(moee.standardize(part, over), expected, atol=1e-5)
    assert torch.equal(moee.standardize(part, "none"), part)


def test_a_batch_of_one_has_nothing_to_deviate_from():
    assert moee.standardize(torch.randn(1, 7), "batch").eq(0).all()


def test_equal_numbers_have_a_gradient():
    part = torch.full((3, 4), 0.25, requires_grad=True)
    moee.standardize(part, "vector").square().sum().backward()
    assert part.grad is not None
    assert part.grad.isfinite().all()


@pytest.mark.parametrize("source", ["hidden_state", "routing_weights", "concat", "sum"])
@pytest.mark.parametrize("standardize", ["none", "vector"])
def test_vectors_do_not_depend_on_their_batch(source, standardize, texts):
    embedder = disturbed(
        build("tiny", "moe", None, "moee", embedding__source=source,
              embedding__standardize=standardize, routing__placement="every")
    )  # fmt: skip
    width = {"hidden_state": 128, "routing_weights": 16}.get(source, 144)
    together = embedder.encode(texts, batch_tokens=10**6)
    assert together.shape == (len(texts), width)
    assert embedder.width == width
    np.testing.assert_allclose(embedder.encode(texts, batch_tokens=1), together, atol=2e-6)
    assert np.abs(together[0] - together[1]).max() > 1e-3


def test_standardized_over_the_batch_they_do(texts):
    embedder = disturbed(build("tiny", "moe", None, "moee", embedding__standardize="batch"))
    whole = embedder.encode(texts[:6], batch_tokens=10**6)
    halves = np.concatenate([embedder.encode(texts[:3]), embedder.encode(texts[3:6])])
    assert np.abs(whole - halves).max() > 0.01


@pytest.mark.parametrize("family", NATIVE)
@pytest.mark.parametrize("numbers", ["logits", "probabilities"])
def test_native_experts_report_once_a_layer(family, numbers):
    """Against transformers' own recording of its router logits, sequence by sequence."""
    embedder = native(
        family, embedding__source="routing_weights", embedding__router=numbers,
        embedding__standardize="none", embedding__normalize=False,
    )  # fmt: skip
    tokens = batch()
    found = embedder(tokens)
    layers = len(routers.expert_counts(embedder.model))
    assert layers == (1 if family == "deepseek" else 2)
    assert found.vectors.shape == (4, 6 * layers) == (4, embedder.width)
    embedder.model.set_attn_implementation("sdpa")
    gates: list[list[torch.Tensor]] = []
    hooks = [
        gate.register_forward_hook(lambda m, a, o: gates[-1].append(o[0].detach()))
        for gate in routers.native_routers(embedder.model)
    ]
    for i in range(4):
        gates.append([])
        one = tokens.select(torch.tensor([i]))
        embedder.model(input_ids=one.input_ids[None])
    for hook in hooks:
        hook.remove()
    expected = torch.stack(
        [
            torch.cat([
                (layer.reshape(-1, 6)[-1].float().softmax(-1) if numbers == "probabilities"
                 else layer.reshape(-1, 6)[-1].float())
                for layer in layers_of_one
            ])
            for layers_of_one in gates
        ]
    )  # fmt: skip
    torch.testing.assert_close(found.vectors, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", NATIVE)
def test_native_models_come_back_and_serve_elsewhere(family, tmp_path, texts):
    st = pytest.importorskip("sentence_transformers")
    embedder = native(family)
    embedder.save(tmp_path / "model")
    expected = embedder.encode(texts)
    np.testing.assert_array_equal(load(tmp_path / "model").encode(texts), expected)
    theirs = st.SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(theirs.encode(texts), expected, atol=2e-6)


def test_our_own_experts_come_back_and_serve_elsewhere(tmp_path, texts):
    st = pytest.importorskip("sentence_transformers")
    embedder = disturbed(build("tiny", "moe", None, "moee", embedding__source="sum"))
    embedder.save(tmp_path / "model")
    expected = embedder.encode(texts)
    np.testing.assert_array_equal(load(tmp_path / "model").encode(texts), expected)
    theirs = st.SentenceTransformer(str(tmp_path / "model"), device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(theirs.encode(texts), expected, atol=2e-6)


def test_it_can_be_trained():
    embedder = build("tiny", "moe", None, "moee", backbone__dropout=0.0)
    embedder(batch()).vectors.square().sum().backward()
    gradients = {name: p.grad for name, p in embedder.named_parameters() if p.grad is not None}
    assert any("router" in name and g.abs().max() > 0 for name, g in gradients.items())
    assert all(g.isfinite().all() for g in gradients.values())


@pytest.mark.parametrize(
    ("routing", "changes", "message"),
    [
        ("dense", {}, "routes no tokens to experts"),
        ("moe", {"embedding__width": 200}, "more than the 136 dimensions"),
    ],
)
def test_what_a_model_lacks_is_an_error(routing, changes, message):
    with pytest.raises(UserError, match=message):
        build("tiny", routing, None, "moee", **changes)


def test_the_hidden_state_alone_is_the_last_token(texts):
    changes = {"embedding__source": "hidden_state", "embedding__standardize": "none"}
    found = build("tiny_llama", "dense", None, "moee", **changes).encode(texts)
    expected = build("tiny_llama", "dense", None, "last_token").encode(texts)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_nothing_is_recorded_outside_a_pass():
    embedder = native("olmoe")
    tokens = TokenBatch.pack([[5, 6, 7]], [1], [1])
    first = embedder(tokens).router
    assert first is not None
    assert [len(layer) for layer in first.logits] == [3, 3]
    embedder.model.set_attn_implementation("sdpa")
    embedder.model(input_ids=tokens.input_ids[None])
    assert [len(layer) for layer in first.logits] == [3, 3]


@pytest.mark.parametrize("routing", ["moe", "switch", "token_level", "loss_free", "expert_choice"])
def test_every_token_routing_has_routing_weights(routing, texts):
    embedder = disturbed(build("tiny", routing, None, "moee", embedding__source="routing_weights"))
    assert sum(routers.expert_counts(embedder.model)) == 8 == embedder.width
    vectors = embedder.encode(texts)
    assert vectors.shape == (len(texts), 8)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a cat", "a cat."),
        ("is it?", "is it?"),
        ("he said 'no'", "he said 'no'"),
        ('he said "no"', "he said 'no'"),
        ("a_b ", "a b ."),
        ("", ""),
    ],
)
def test_texts_are_cleaned_as_by_the_official_code(text, expected):
    assert moee.cleaned(text) == expected
    options = {"embedding__source": "hidden_state", "embedding__prompts": PROMPTS}
    ours = build("tiny", "moe", None, "moee", embedding__clean=True, **options)
    plain = build("tiny", "moe", None, "moee", **options)
    np.testing.assert_array_equal(
        ours.encode([text], task="clustering"), plain.encode([expected], task="clustering")
    )


def test_texts_of_training_are_not_cleaned_and_that_is_told():
    with pytest.raises(UserError, match="not done to the texts of stage=contrastive"):
        compose(["embedding=moee", "routing=moe", "embedding.clean=true"])
