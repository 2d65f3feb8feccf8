from __future__ import annotations

import itertools

import pytest
import torch

from embedexp.config.errors import UserError
from embedexp.mask_schedule import FORMS, soft_mask

CAUSAL = torch.ones(8, 8).tril()


@pytest.mark.parametrize(
    ("form", "ranks"),
    [
        ("printed", [8, 7, 7, 7, 7, 6, 6, 5, 3, 1, 1]),
        ("column", [8, 8, 8, 7, 6, 5, 5, 4, 3, 2, 1]),
        ("row", [8, 8, 7, 6, 5, 4, 4, 3, 2, 1, 1]),
        ("literal", [8] * 11),
    ],
)
def test_rank_falls_as_the_papers_readings_say(form, ranks):
    masks = [soft_mask(8, tenth / 10, form=form).double() for tenth in range(11)]
    assert [int(torch.linalg.matrix_rank(mask, tol=1e-6)) for mask in masks] == ranks


@pytest.mark.parametrize("form", FORMS)
def test_causal_at_the_start_and_open_at_the_end(form):
    assert torch.equal(soft_mask(8, 0.0, form=form), CAUSAL)
    end = soft_mask(8, 1.0, form=form)
    assert torch.equal(end, torch.ones(8, 8)) is (form != "literal")


@pytest.mark.parametrize("form", FORMS)
def test_weights_only_grow_and_the_past_stays_open(form):
    masks = [soft_mask(8, p, form=form) for p in torch.linspace(0, 1, 21).tolist()]
    for before, after in itertools.pairwise(masks):
        assert (after >= before).all()
        assert (after[CAUSAL.bool()] == 1).all()
    assert all(((mask >= 0) & (mask <= 1)).all() for mask in masks)


def test_coefficients_by_hand():
    # l = 4, i = 2, j = 3 (1-based), alpha = 0.25
    expected = {"column": 1 / 3, "row": 1 / 2, "printed": 1 / 2, "literal": 1 / 8}
    for form, value in expected.items():
        assert soft_mask(4, 0.25, form=form)[1, 2].item() == pytest.approx(value)


def test_front_columns_open_first_in_the_column_form():
    mask = soft_mask(8, 0.5)
    opened = (mask == 1).all(0)
    assert opened.tolist() == [True] * 4 + [False] * 4


def test_the_printed_forms_division_by_zero_opens_the_last_column_at_once():
    assert soft_mask(8, 0.0, form="printed")[0, 7] == 0
    assert (soft_mask(8, 1e-6, form="printed")[:, 7] == 1).all()


@pytest.mark.parametrize("form", FORMS)
def test_a_single_token_sees_itself(form):
    assert torch.equal(soft_mask(1, 0.0, form=form), torch.ones(1, 1))


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(UserError, match="did you mean column"):
        soft_mask(4, 0.5, form="colum")
    with pytest.raises(UserError, match="did you mean linear"):
        soft_mask(4, 0.5, schedule="liner")
    with pytest.raises(UserError, match="share of training"):
        soft_mask(4, 1.5)
