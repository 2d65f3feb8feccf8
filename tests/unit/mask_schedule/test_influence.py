"""Who changes when a token changes: attention of whole models, packed, alone and together."""

from __future__ import annotations

import pytest
import torch

from embedexp.backbone.layout import PackedLayout
from embedexp.config.schema.mask_schedule import Causal, Linear
from embedexp.mask_schedule import SCHEDULES, build
from tests.unit.backbone.options import NO_DROPOUT, model_config
from tests.unit.embedding.test_embedder import batch

from .test_schedules import SOFT

LENGTHS = {"one": [9], "many": [4, 9, 1, 9, 6]}


@pytest.fixture(scope="module", params=["tiny", "tiny_llama"])
def model(request):
    from embedexp.embedding import build_embedder

    return build_embedder(model_config(request.param, changes=NO_DROPOUT)).eval().model


def hidden(model, tokens, mask):
    layout = PackedLayout.build(tokens.lengths.tolist(), mask)
    with torch.inference_mode():
        return model(
            input_ids=tokens.input_ids[None],
            position_ids=tokens.position_ids[None],
            packed_layout=layout,
        ).last_hidden_state[0]


def changed_rows(model, lengths, mask, place):
    """Which tokens' hidden states change with the token at `place`."""
    tokens = batch(lengths)
    before = hidden(model, tokens, mask)
    tokens.input_ids[place] = 5 if tokens.input_ids[place] != 5 else 6
    after = hidden(model, tokens, mask)
    return (before != after).any(-1)


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_the_future_has_no_influence_at_the_start_and_all_of_it_at_the_end(model, name, size):
    lengths = LENGTHS[size]
    schedule = build(SOFT[name](name=name, form="column"))
    start = 0 if size == "one" else 4
    own = torch.zeros(sum(lengths), dtype=torch.bool)
    own[start : start + 9] = True
    place = start + 5
    for step, total in ((0, 10), (3, 10), (10, 10)):
        mask = schedule.mask(schedule.progress(step, total))
        changed = changed_rows(model, lengths, mask, place)
        expected = own.clone()
        if step == 0:
            expected[:place] = False
        assert torch.equal(changed, expected), step


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("form", ["column", "row", "printed", "literal"])
def test_the_ends_are_the_plain_masks_bit_for_bit(model, form, size):
    tokens = batch(LENGTHS[size])
    schedule = build(Linear(name="linear", form=form))
    causal = build(Causal(name="causal"))
    assert torch.equal(
        hidden(model, tokens, schedule.mask(0.0)), hidden(model, tokens, causal.mask(1.0))
    )
    if form != "literal":
        assert torch.equal(
            hidden(model, tokens, schedule.mask(1.0)), hidden(model, tokens, "bidirectional")
        )


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_the_bias_itself_ends_at_the_plain_masks(model, alpha, size):
    """Not only its name: the additive log-mask at both ends, up to the kernels' rounding."""
    tokens = batch(LENGTHS[size])
    schedule = build(Linear(name="linear", form="column"))
    found = hidden(model, tokens, lambda lengths: schedule.bias(lengths, alpha))
    expected = hidden(model, tokens, "bidirectional" if alpha else "causal")
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)


def test_a_step_past_the_start_lets_the_future_in_a_little(model):
    tokens = batch([9])
    schedule = build(Linear(name="linear", form="column"))
    base = hidden(model, tokens, schedule.mask(0.0))
    differences = [
        (hidden(model, tokens, schedule.mask(alpha)) - base).abs().max().item()
        for alpha in (1e-6, 1e-3, 1e-1)
    ]
    assert 0 < differences[0] < differences[1] < differences[2]
