from __future__ import annotations

import pytest
import torch

from embedexp.batching.token_batch import TokenBatch
from embedexp.config.errors import UserError
from embedexp.embedding import build_embedder, last_token, mean

from ..backbone.options import FAMILIES, NO_DROPOUT, model_config
from .conftest import build

LENGTHS = [4, 11, 1, 6]


def batch(lengths=LENGTHS, seed=0):
    generator = torch.Generator().manual_seed(seed)
    texts = [torch.randint(5, 8000, (n,), generator=generator).tolist() for n in lengths]
    return TokenBatch.pack(texts, [1] * len(texts), [1] * len(texts))


def test_pooling_by_hand():
    hidden = torch.arange(12.0).view(6, 2)
    cu_seqlens = torch.tensor([0, 1, 4, 6])
    assert mean.pool(hidden, cu_seqlens).tolist() == [[0, 1], [4, 5], [9, 10]]
    assert last_token.pool(hidden, cu_seqlens).tolist() == [[0, 1], [6, 7], [10, 11]]


@pytest.mark.parametrize("module", [mean, last_token])
def test_pooling_has_the_right_gradient(module):
    hidden = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    cu_seqlens = torch.tensor([0, 1, 4, 6])
    torch.autograd.gradcheck(lambda rows: module.pool(rows, cu_seqlens), hidden)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("pooling", ["mean", "last_token"])
def test_vectors_are_those_of_the_padded_model(family, pooling):
    embedder = build(family, "dense", None, pooling).eval()
    tokens = batch()
    ids, mask = tokens.padded()
    embedder.model.set_attn_implementation("sdpa")
    hidden = embedder.model(input_ids=ids, attention_mask=mask).last_hidden_state
    embedder.model.set_attn_implementation("embedexp_packed")
    if pooling == "mean":
        expected = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    else:
        expected = hidden[torch.arange(4), mask.sum(1) - 1]
    expected = torch.nn.functional.normalize(expected, dim=-1)
    torch.testing.assert_close(embedder(tokens).vectors, expected, atol=1e-5, rtol=0)


def test_width_cuts_before_it_normalises():
    whole = build("tiny", embedding__normalize=False).eval()
    cut = build("tiny", embedding__width=32).eval()
    expected = torch.nn.functional.normalize(whole(batch()).vectors[:, :32], dim=-1)
    torch.testing.assert_close(cut(batch()).vectors, expected)
    assert cut.width == 32


@pytest.mark.parametrize("form", ["column", "row", "printed", "literal"])
def test_soft_mask_runs_from_causal_to_bidirectional(form):
    soft = build("tiny_llama", "dense", "linear", "mean", mask_schedule__form=form)
    causal, both = (build("tiny_llama", "dense", m) for m in ("causal", "bidirectional"))
    tokens = batch()
    assert torch.equal(soft(tokens, 0.0).vectors, causal(tokens).vectors)
    assert torch.equal(soft(tokens).vectors, both(tokens).vectors) is (form != "literal")
    middle = soft(tokens, 0.5).vectors
    assert middle.isfinite().all()
    assert not torch.allclose(middle, causal(tokens).vectors, atol=1e-4)


def test_soft_mask_goes_by_each_sequences_own_length():
    soft = build("tiny_llama", "dense", "linear")
    tokens = batch([5, 9, 6, 9, 2, 30])
    together = soft(tokens, 0.4).vectors
    for i in range(6):
        alone = soft(tokens.select(torch.tensor([i])), 0.4).vectors[0]
        torch.testing.assert_close(together[i], alone, atol=1e-6, rtol=0)


def test_soft_mask_is_the_softmax_with_multiplied_exponentials():
    from embedexp.mask_schedule import soft_mask

    soft = build("tiny_llama", "dense", "linear", backbone__layers=1)
    tokens = batch([7])
    bias = soft_mask(7, 0.4).log()[None, None]
    soft.model.set_attn_implementation("eager")
    hidden = soft.model(input_ids=tokens.input_ids[None], attention_mask=bias).last_hidden_state
    soft.model.set_attn_implementation("embedexp_packed")
    expected = torch.nn.functional.normalize(hidden[0].mean(0), dim=-1)
    torch.testing.assert_close(soft(tokens, 0.4).vectors[0], expected, atol=1e-6, rtol=0)


def test_the_gradient_passes_the_soft_mask_without_nan():
    soft = build("tiny_llama", "dense", "linear", mask_schedule__form="printed")
    for alpha in (0.0, 1e-6, 0.5, 1.0):
        soft.zero_grad()
        soft(batch(), alpha).vectors.sum().backward()
        assert all(p.grad.isfinite().all() for p in soft.parameters())


def test_random_weights_depend_on_the_seed_alone():
    config = model_config("tiny", "moe", changes=NO_DROPOUT)
    torch.manual_seed(1)
    first = build_embedder(config)
    drawn = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), drawn)  # building left the global generator as it was
    second = build_embedder(config)
    assert torch.equal(first(batch()).vectors, second(batch()).vectors)
    other = build_embedder(config.model_copy(update={"seed": 7}))
    assert not torch.equal(first(batch()).vectors, other(batch()).vectors)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"embedding__width": 129}, "embedding.width=129 is more than the model's 128"),
        ({"embedding__document_tokens": 513}, "document_tokens=513 is more than .* 512 positions"),
    ],
)
def test_more_than_the_backbone_has_is_an_error(changes, message):
    with pytest.raises(UserError, match=message):
        build("tiny", **changes)


def test_rotary_positions_have_no_such_limit():
    assert build("tiny_llama", embedding__document_tokens=5000).config.embedding
