"""InfoNCE means what its denominator says."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from embedexp.config import compose
from embedexp.config.sources import option_files, read_yaml
from embedexp.config.tree import classes
from embedexp.loss import build, info_nce
from embedexp.loss.infonce import DIRECTIONS, TERMS, InfoNCELoss

from .references import batch_of, mat

Q = mat(4, 8, 0.3)
P = Q + 3 * mat(4, 8, 1.1)
N = Q + 2.5 * mat(4, 8, 2.9)
HARD = ["own_hard_negatives", "other_hard_negatives"]


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(a @ b / a.norm() / b.norm())


def by_hand(q, p, n, temperature, denominator, margin=None, ids=None, mask=None):
    """The definition, term by term in Python floats."""
    total = 0.0
    for i in range(len(q)):
        positive = cosine(q[i], p[i])
        terms = []
        for j in range(len(q)):
            same = ids is not None and ids[j] == ids[i]
            if j != i and not same:
                if "other_positives" in denominator:
                    terms.append(cosine(q[i], p[j]))
                if "other_queries" in denominator:
                    terms.append(cosine(q[i], q[j]))
                if "other_documents" in denominator:
                    terms.append(cosine(p[i], p[j]))
            which = "own_hard_negatives" if j == i else "other_hard_negatives"
            if n is not None and which in denominator:
                terms += [
                    cosine(q[i], n[j, k]) for k in range(n.shape[1]) if mask is None or mask[j, k]
                ]
        if margin is not None:
            terms = [t for t in terms if t <= positive + margin]
        numerator = math.exp(positive / temperature)
        total -= math.log(numerator / (numerator + sum(math.exp(t / temperature) for t in terms)))
    return total / len(q)


@pytest.mark.parametrize(
    ("scale", "hard", "denominator", "golden"),
    [
        (20, False, ["other_positives"], 1.5914552594504372e-05),
        (20, True, ["other_positives", *HARD], 0.07794542562471055),
        (50, False, ["other_positives"], 2.691347145137831e-12),
        (50, True, ["other_positives", *HARD], 0.009593588290149124),
        (20, True, ["own_hard_negatives"], 2.5329738306815717e-13),
        (50, True, ["own_hard_negatives"], 0.0),
    ],
)
def test_golden_values(scale, hard, denominator, golden):
    value = info_nce(
        Q, P, N[:, None] if hard else None, temperature=1 / scale, denominator=denominator
    )
    assert value.item() == pytest.approx(golden, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("margin", [None, 0.1])
@pytest.mark.parametrize(
    "denominator",
    [list(c) for r in range(1, len(TERMS) + 1) for c in itertools.combinations(TERMS, r)],
    ids="+".join,
)
def test_every_denominator_equals_its_definition(denominator, margin):
    generator = torch.Generator().manual_seed(3)
    q, p = (torch.randn(5, 6, generator=generator, dtype=torch.float64) for _ in range(2))
    n = torch.randn(5, 2, 6, generator=generator, dtype=torch.float64)
    mask = torch.tensor([[1, 1], [1, 0], [0, 0], [1, 1], [0, 1]], dtype=torch.bool)
    value = info_nce(
        q, p, n, temperature=0.3, denominator=denominator, false_negative_margin=margin, mask=mask
    )
    assert value.item() == pytest.approx(by_hand(q, p, n, 0.3, denominator, margin, None, mask))


def test_equal_documents_are_not_negatives_of_each_other():
    ids = torch.tensor([7, 8, 7, 9])
    value = info_nce(Q, P, temperature=0.5, denominator=["other_positives"], positive_ids=ids)
    assert value.item() == pytest.approx(by_hand(Q, P, None, 0.5, ["other_positives"], ids=ids))
    assert value < info_nce(Q, P, temperature=0.5, denominator=["other_positives"])


def test_other_positives_of_one_query_are_not_its_negatives():
    ids = torch.tensor([7, 8, 7, 9])
    by_query = info_nce(Q, P, temperature=0.5, denominator=["other_positives"], query_ids=ids)
    by_document = info_nce(Q, P, temperature=0.5, denominator=["other_positives"], positive_ids=ids)
    assert by_query.item() == pytest.approx(by_document.item())


def test_a_hard_negative_that_is_the_positive_of_a_query_is_left_out():
    own = ["own_hard_negatives"]
    arguments = {"temperature": 0.5, "denominator": own, "positive_ids": torch.arange(4)}
    same = torch.tensor([[0], [11], [12], [13]])
    other = torch.tensor([[10], [11], [12], [13]])
    kept = info_nce(Q, P, N[:, None], hard_negative_ids=other, **arguments)
    dropped = info_nce(Q, P, N[:, None], hard_negative_ids=same, **arguments)
    mask = torch.tensor([[0], [1], [1], [1]], dtype=torch.bool)
    assert dropped < kept
    assert dropped.item() == pytest.approx(by_hand(Q, P, N[:, None], 0.5, own, mask=mask))


@pytest.mark.parametrize("denominator", TERMS)
def test_a_text_is_never_its_own_negative_where_ids_are_shared(denominator):
    # Pairs (1, 2), (2, 3), (4, 5), (6, 1): text 1 is a query and a positive, and so is text 2.
    first, second = torch.tensor([1, 2, 4, 6]), torch.tensor([2, 3, 5, 1])
    hard_ids = torch.tensor([[4], [20], [21], [2]])
    pairs = {
        "other_positives": [(i, j) for i in range(4) for j in range(4) if first[i] == second[j]],
        "other_queries": [(i, j) for i in range(4) for j in range(4) if second[i] == first[j]],
        "other_documents": [(i, j) for i in range(4) for j in range(4) if first[i] == second[j]],
        # Those of the query itself, and of its positive, which are left out without sharing too.
        "other_hard_negatives": [
            (i, j) for i in range(4) for j in range(4) if hard_ids[j, 0] in (first[i], second[i])
        ],
        "own_hard_negatives": [],
    }[denominator]
    left, right = {
        "other_positives": (Q, P),
        "other_queries": (Q, Q),
        "other_documents": (P, P),
    }.get(denominator, (Q, N))
    expected = 0.0
    for i in range(4):
        positive = cosine(Q[i], P[i])
        others = [i] if denominator == "own_hard_negatives" else [j for j in range(4) if j != i]
        terms = [cosine(left[i], right[j]) for j in others if (i, j) not in pairs]
        expected += math.log(1 + sum(math.exp((term - positive) / 0.5) for term in terms)) / 4
    arguments = {"query_ids": first, "positive_ids": second, "hard_negative_ids": hard_ids}
    arguments |= {"temperature": 0.5, "denominator": [denominator]}
    value = info_nce(Q, P, N[:, None], shared_ids=True, **arguments)
    assert value.item() == pytest.approx(expected)
    apart = info_nce(Q, P, N[:, None], **arguments)
    assert (apart > value) == (denominator != "own_hard_negatives")


def test_training_batches_share_ids_between_queries_and_documents():
    batch = batch_of([(1, -1), (2, -1)], [(2, -1), (3, -1)])  # pairs (1, 2) and (2, 3)
    vectors = torch.cat([Q[:2], P[:2]])
    value = InfoNCELoss(0.5, ["other_positives"])(vectors, batch).total
    positives = [cosine(Q[i], P[i]) for i in (0, 1)]
    only = math.log(1 + math.exp((cosine(Q[0], P[1]) - positives[0]) / 0.5))
    assert value.item() == pytest.approx(only / 2)  # query 2 is not pushed from positive 2


def test_no_gradient_reaches_what_is_masked():
    hard = N[:, None].clone().requires_grad_()
    mask = torch.tensor([[1], [0], [1], [0]], dtype=torch.bool)
    info_nce(Q, P, hard, temperature=0.5, denominator=["own_hard_negatives"], mask=mask).backward()
    norms = hard.grad.norm(dim=-1).squeeze(1)
    assert norms[[1, 3]].tolist() == [0, 0]
    assert (norms[[0, 2]] > 0).all()


def test_lengths_of_vectors_do_not_matter():
    a = info_nce(Q, P, temperature=0.1, denominator=["other_positives"])
    b = info_nce(3 * Q, 0.2 * P, temperature=0.1, denominator=["other_positives"])
    assert a.item() == pytest.approx(b.item())


def test_half_precision_and_autocast_do_not_blur_a_small_temperature():
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(64, 32, generator=generator)
    p = q + 0.8 * torch.randn(64, 32, generator=generator)
    q16, p16 = q.bfloat16(), p.bfloat16()
    exact = info_nce(q16.float(), p16.float(), temperature=0.01, denominator=["other_positives"])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = info_nce(q16, p16, temperature=0.01, denominator=["other_positives"])
    assert half.dtype == torch.float32
    assert abs(half - exact) < 1e-3


def test_unknown_terms_are_refused_by_name():
    with pytest.raises(ValueError, match="own_negatives"):
        info_nce(Q, P, temperature=1.0, denominator=["own_negatives"])


@pytest.mark.parametrize(
    ("scale", "golden"), [(20, 1.775690499556768e-05), (50, 4.904243677778179e-12)]
)
def test_golden_values_of_both_directions(scale, golden):
    value = info_nce(
        Q, P, temperature=1 / scale, denominator=["other_positives"], directions=DIRECTIONS
    )
    assert value.item() == pytest.approx(golden, rel=1e-9, abs=1e-15)


def test_a_positive_of_another_row_of_the_query_is_no_negative_wherever_it_stands():
    # Query 1 has the positives 10 and 11; 11 is also the answer of query 2, and a hard negative of
    # query 1 (its own, in row 0) and of query 3.
    query_ids = torch.tensor([1, 1, 2, 3])
    positive_ids = torch.tensor([10, 11, 11, 13])
    hard_ids = torch.tensor([[11], [20], [21], [11]])
    allowed = {  # candidates of each row: positives of rows, hard negatives of rows
        0: ([3], [1, 2]),
        1: ([3], [1, 2]),
        2: ([0, 3], [1, 2]),
        3: ([0, 1, 2], [0, 1, 2, 3]),
    }
    expected = 0.0
    for i, (rows, hard) in allowed.items():
        terms = [cosine(Q[i], P[j]) for j in rows] + [cosine(Q[i], N[j]) for j in hard]
        expected += math.log(1 + sum(math.exp((t - cosine(Q[i], P[i])) / 0.5) for t in terms)) / 4
    value = info_nce(
        Q,
        P,
        N[:, None],
        temperature=0.5,
        denominator=["other_positives", *HARD],
        query_ids=query_ids,
        positive_ids=positive_ids,
        hard_negative_ids=hard_ids,
    )
    assert value.item() == pytest.approx(expected)


def test_texts_are_the_same_if_any_column_says_so_and_minus_one_says_nothing():
    plain = {"temperature": 0.5, "denominator": ["other_positives"]}
    keys = torch.tensor([[7, -1], [8, 3], [9, 3], [10, -1]])
    grouped = info_nce(Q, P, positive_ids=keys, **plain)
    assert grouped.item() == pytest.approx(
        info_nce(Q, P, positive_ids=torch.tensor([7, 8, 8, 10]), **plain).item()
    )
    apart = keys.masked_fill(keys == 3, -1)
    assert info_nce(Q, P, positive_ids=apart, **plain).item() == pytest.approx(
        info_nce(Q, P, **plain).item()
    )


def test_the_margin_is_measured_on_the_cosine_of_each_term():
    # The same-tower term q·q' is masked by its own cosine, not by that of q·p'.
    q = torch.tensor([[1.0, 0, 0], [0.999, 0.04, 0]])  # queries almost equal
    p = torch.tensor([[0.5, 0.8, 0.2], [-0.5, 0.8, -0.2]])  # documents far from them
    kwargs = {"temperature": 0.5, "false_negative_margin": 0.1}
    assert info_nce(q, p, denominator=["other_queries"], **kwargs).item() == 0
    assert info_nce(q, p, denominator=["other_documents"], **kwargs).item() > 0


def test_ragged_and_absent_hard_negatives_train_together():
    mask = torch.tensor([[0, 0], [1, 0], [1, 1], [0, 0]], dtype=torch.bool)
    hard = torch.stack([N, N.roll(1, 0)], 1)
    for denominator in (["own_hard_negatives"], ["other_hard_negatives"], HARD):
        value = info_nce(Q, P, hard, temperature=0.5, denominator=denominator, mask=mask)
        assert value.item() == pytest.approx(by_hand(Q, P, hard, 0.5, denominator, mask=mask))
        none = info_nce(
            Q, P, hard, temperature=0.5, denominator=denominator, mask=torch.zeros_like(mask)
        )
        assert none.item() == 0


class Fixed(torch.nn.Module):
    """A model whose embeddings come as its inputs."""

    def forward(self, features):
        return {**features, "sentence_embedding": features["vectors"]}


@pytest.mark.parametrize(
    ("hard", "ours", "theirs"),
    [
        (True, {"denominator": ["other_positives", *HARD]}, {}),
        (False, {"denominator": ["other_positives"]}, {}),
        (
            False,
            {"denominator": ["other_positives"], "directions": DIRECTIONS},
            {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"},
        ),
        (
            False,
            {"denominator": ["other_positives", "other_queries", "other_documents"]},
            {"directions": ("query_to_doc", "query_to_query", "doc_to_doc")},
        ),
    ],
    ids=["hard negatives", "in batch", "both directions", "same tower"],
)
@pytest.mark.parametrize("cached", [False, True])
def test_agrees_with_sentence_transformers_on_what_both_mean(hard, ours, theirs, cached):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import losses

    columns = [Q, P, N] if hard else [Q, P]
    a = [x.clone().requires_grad_() for x in columns]
    b = [x.clone().requires_grad_() for x in columns]
    model = SentenceTransformer(modules=[Fixed()])
    if cached:
        loss = losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=2, **theirs)
        expected = loss.calculate_loss([list(x.split(2)) for x in a])
    else:
        loss = losses.MultipleNegativesRankingLoss(model, **theirs)
        expected = loss.compute_loss_from_embeddings(a, None)
    found = info_nce(*b[:2], b[2][:, None] if hard else None, temperature=0.05, **ours)
    assert found.item() == pytest.approx(expected.item(), rel=1e-9)
    expected.backward()
    found.backward()
    for mine, other in zip(b, a, strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


VARIANTS = [name for name, cls in classes("loss").items() if cls.__name__ == "InfoNCE"]


@pytest.mark.parametrize("name", VARIANTS)
def test_published_variants_are_infonce_with_other_values(name):
    values = read_yaml(option_files("loss")[name])
    module = build(classes("loss")[name].model_validate(values))
    assert isinstance(module, InfoNCELoss)
    assert module.denominator == tuple(values["denominator"])
    assert module.temperature == values["temperature"]
    assert module.margin == values["false_negative_margin"]


def test_a_name_makes_no_other_experiment_of_the_same_values():
    as_mote = ["loss.temperature=0.03", "loss.denominator=[other_positives]"]
    assert compose(["loss=mote"]).signature == compose(as_mote).signature
    assert compose(["loss=mote"]).signature != compose([]).signature


def test_hard_negatives_alone_are_no_queries_to_look_for():
    with pytest.raises(ValueError, match="document_to_query"):
        info_nce(Q, P, N[:, None], temperature=1.0, denominator=HARD, directions=DIRECTIONS)
    with pytest.raises(ValueError, match="there are query_to_document"):
        info_nce(Q, P, temperature=1.0, denominator=["other_positives"], directions=["q2d"])
