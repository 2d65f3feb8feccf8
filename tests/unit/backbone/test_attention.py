from __future__ import annotations

import pytest
import torch

from embedexp import backbone, mask_schedule
from embedexp.backbone.attention import NAMES
from embedexp.backbone.layout import PackedLayout, groups
from embedexp.batching.token_batch import TokenBatch
from embedexp.config.schema.mask_schedule import Linear

from .options import FAMILIES, NO_DROPOUT, model_config

LENGTHS = [3, 17, 1, 9, 9, 30, 2, 16, 9, 28, 5, 11]


@pytest.fixture(params=FAMILIES)
def model(request):
    torch.manual_seed(0)
    option = model_config(request.param, changes=NO_DROPOUT).backbone
    return backbone.load(option)[0].train()


def native(model):
    return "causal" if model.config.model_type == "llama" else "bidirectional"


def pack(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    texts = [torch.randint(5, 8000, (n,), generator=generator).tolist() for n in lengths]
    return TokenBatch.pack(texts, [0] * len(texts), [0] * len(texts))


def packed_forward(model, batch, mask):
    layout = PackedLayout.build(batch.lengths.tolist(), mask)
    return model(
        input_ids=batch.input_ids[None],
        position_ids=batch.position_ids[None],
        packed_layout=layout,
    ).last_hidden_state[0]


def padded_forward(model, batch):
    """What transformers' own sdpa does with the padded batch, as packed rows."""
    ids, mask = batch.padded()
    implementation = model.config._attn_implementation
    model.set_attn_implementation("sdpa")
    try:
        return model(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()]
    finally:
        model.set_attn_implementation(implementation)


def gradients(model, hidden):
    weights = torch.linspace(-1, 1, hidden.numel()).view_as(hidden)
    model.zero_grad()
    (hidden * weights).mean().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("lengths", [LENGTHS, [6, 6, 6], [9, 9, 4]], ids=str)
def test_packed_equals_transformers_padded_with_gradients(model, lengths):
    batch = pack(lengths)
    packed, padded = packed_forward(model, batch, native(model)), padded_forward(model, batch)
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=0)
    ours, theirs = gradients(model, packed), gradients(model, padded)
    assert any(g.abs().max() > 1e-4 for g in ours.values())
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], atol=1e-6, rtol=1e-3)


def test_a_sequence_does_not_see_its_neighbours(model):
    lengths = [7] * 30 + LENGTHS + [12] * 22
    batch = pack(lengths)
    together = packed_forward(model, batch, native(model)).split(lengths)
    for i in (0, 29, 35, 63):
        alone = packed_forward(model, batch.select(torch.tensor([i])), native(model))
        torch.testing.assert_close(together[i], alone, atol=1e-5, rtol=0)


def test_the_other_mask_changes_what_a_token_sees(model):
    batch = pack([8])
    changed = batch.input_ids.clone()
    changed[-1] = 4
    future = TokenBatch(changed, batch.cu_seqlens, batch.task_ids, batch.roles)
    for mask, seen in (("causal", False), ("bidirectional", True)):
        before, after = packed_forward(model, batch, mask), packed_forward(model, future, mask)
        assert bool((before[:-1] != after[:-1]).any()) is seen
        assert (before[-1] != after[-1]).any()


@pytest.mark.parametrize("lengths", [[5], [5, 5, 5], [9, 3, 7, 9, 1]])
def test_a_bias_closes_what_it_says_for_each_length(model, lengths):
    def past_only(real):
        longest = int(real.max())
        closed = torch.ones(longest, longest).triu(1).bool()
        return torch.zeros(len(real), longest, longest).masked_fill(closed, float("-inf"))

    batch = pack(lengths)
    biased = packed_forward(model, batch, past_only)
    assert biased.isfinite().all()
    torch.testing.assert_close(biased, packed_forward(model, batch, "causal"), atol=1e-5, rtol=0)


def test_a_padded_batch_without_a_layout_is_transformers_own(model):
    ids, mask = pack(LENGTHS).padded()
    ours = model(input_ids=ids, attention_mask=mask).last_hidden_state[mask.bool()]
    torch.testing.assert_close(ours, padded_forward(model, pack(LENGTHS)), atol=0, rtol=0)


def test_bfloat16_stays_bfloat16_outside_attention(model):
    with torch.autocast("cpu", torch.bfloat16):
        hidden = packed_forward(model, pack(LENGTHS), native(model))
    exact = packed_forward(model, pack(LENGTHS), native(model))
    assert (hidden.float() - exact).abs().mean() < 0.02
    assert all(g.isfinite().all() for g in gradients(model, hidden.float()).values())


def test_groups_waste_little_and_lose_nobody():
    sizes = torch.randint(5, 41, (500,), generator=torch.Generator().manual_seed(1)).numpy()
    order = (-sizes).argsort(kind="stable")
    found = groups(sizes, order)
    assert sorted(i for group in found for i in group) == list(range(500))
    slots = sum(len(group) * sizes[group].max() for group in found)
    assert slots < 1.15 * sizes.sum()
    assert len(found) < 12


def test_layout_returns_every_row_to_its_place():
    layout = PackedLayout.build(LENGTHS)
    rows = torch.arange(sum(LENGTHS))
    assert torch.equal(rows[layout.pad][layout.unpad], rows)
    assert layout.filled.sum() == len(rows)


@pytest.mark.parametrize(
    ("lengths", "in_order"),
    [([6, 6, 6], True), ([9, 9, 4], True), ([4, 9], False), ([9, 8], False)],
)
def test_rows_that_are_in_their_slots_are_not_moved(lengths, in_order):
    layout = PackedLayout.build(lengths)  # 9 and 8 are one group, with padding
    assert layout.in_order is in_order
    assert torch.equal(layout.pad, torch.arange(sum(lengths))) is in_order


@pytest.mark.parametrize("mask", ["bidirectional", "causal", "soft"])
@pytest.mark.parametrize("name", FAMILIES)
def test_attention_written_out_equals_the_fused_kernel(name, mask):
    soft = mask_schedule.build(Linear(name="linear", form="column")).mask(0.4)
    batch, results = pack(LENGTHS), {}
    for implementation in ("sdpa", "eager"):
        changes = {**NO_DROPOUT, "backbone.attention": implementation}
        torch.manual_seed(0)
        model, _ = backbone.load(model_config(name, changes=changes).backbone)
        assert model.config._attn_implementation == NAMES[implementation]
        hidden = packed_forward(model.train(), batch, soft if mask == "soft" else mask)
        results[implementation] = hidden, gradients(model, hidden)
    (fused, ours), (plain, theirs) = results["sdpa"], results["eager"]
    torch.testing.assert_close(fused, plain, atol=1e-5, rtol=0)
    for key in ours:
        torch.testing.assert_close(ours[key], theirs[key], atol=1e-6, rtol=1e-3)
