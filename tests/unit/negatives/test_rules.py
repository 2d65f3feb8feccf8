"""Every rule of mining, on cases made by hand."""

import numpy as np
import pytest

from embedexp.config.errors import UserError
from embedexp.negatives import mine
from embedexp.negatives.rules import Rules


def mined(scores, positives, **rules):
    """Mine one query per row of `scores [n, m]`, which become exact dot products."""
    scores = np.array(scores, float)
    return mine(np.eye(len(scores)), scores.T, positives, normalize=False, **{"count": 3, **rules})


def negatives(scores, positives, **rules):
    return mined(scores, positives, **rules).negatives


ROW = [0.9, 0.88, 0.86, 0.5, 0.4, 0.3]  # document 0 is the positive


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, [1, 2, 3]),
        ({"rank_min": 2}, [3, 4, 5]),
        ({"rank_min": 1, "rank_max": 4}, [2, 3, 4]),
        ({"count": 2, "rank_min": 1, "rank_max": 3}, [2, 3]),
        ({"percent_of_positive": 0.95}, [3, 4, 5]),  # at most 0.855
        ({"percent_of_positive": 0.98}, [1, 2, 3]),  # at most 0.882
        ({"percent_of_positive": 0.97}, [2, 3, 4]),  # at most 0.873
        ({"relative_margin": 0.05}, [3, 4, 5]),
        ({"absolute_margin": 0.03}, [2, 3, 4]),
        ({"max_score": 0.5}, [3, 4, 5]),
        ({"min_score": 0.5}, [1, 2, 3]),
        ({"min_score": 0.86, "max_score": 0.86}, [2]),
        ({"percent_of_positive": 0.95, "min_score": 0.35}, [3, 4]),
        ({"max_score": 0.1}, []),
    ],
)
def test_each_rule_keeps_what_it_should(rules, expected):
    assert negatives([ROW], [[0]], **rules) == [expected]


def test_a_threshold_is_inclusive():
    row = [[1.0, 0.5, 0.25]]
    assert negatives(row, [[0]], percent_of_positive=0.5) == [[1, 2]]
    assert negatives(row, [[0]], absolute_margin=0.5) == [[1, 2]]
    assert negatives(row, [[0]], relative_margin=0.5) == [[1, 2]]
    assert negatives(row, [[0]], max_score=0.5) == [[1, 2]]
    assert negatives(row, [[0]], min_score=0.5) == [[1]]


@pytest.mark.parametrize("rule", [{"percent_of_positive": 0.95}, {"relative_margin": 0.05}])
def test_a_negative_positive_score_lowers_the_threshold(rule):
    """0.95 * -0.5 would allow -0.48, above the positive; right is -0.525 and below."""
    row = [[-0.5, -0.48, -0.51, -0.525, -0.6]]
    assert negatives(row, [[0]], **rule) == [[3, 4]]
    assert negatives([[0.0, 0.0, -0.1, 0.1]], [[0]], **rule) == [[1, 2]]


@pytest.mark.parametrize(
    ("reference", "expected"), [("min", [[4, 5], [1, 2]]), ("max", [[3, 4, 5], [1, 2]])]
)
def test_uneven_numbers_of_positives(reference, expected):
    """Query 0 has three positives of 0.9, 0.6 and 0.7, query 1 has one of 0.8."""
    scores = [[0.9, 0.6, 0.7, 0.8, 0.5, 0.1], [0.8, 0.7, 0.6, 0.81, 0.79, 0.805]]
    found = negatives(
        scores, [[2, 0, 1], [0]], absolute_margin=0.1, reference=reference, rank_max=5
    )
    assert found == expected


def test_each_positive_has_negatives_of_its_own():
    scores = [[0.9, 0.6, 0.8, 0.5, 0.1]]
    result = mined(scores, [[0, 1]], absolute_margin=0.1, reference="each")
    assert result.query.tolist() == [0, 0]
    assert result.positive.tolist() == [0, 1]
    assert result.negatives == [[2, 3, 4], [3, 4]]
    assert result.positive_scores[0].tolist() == [0.9, 0.6]


def test_ties_go_to_the_lower_number():
    assert negatives([[0.9, 0.5, 0.7, 0.5, 0.7, 0.5]], [[0]], count=4) == [[2, 4, 1, 3]]


def test_fewer_candidates_than_asked_give_a_shorter_list():
    result = mined([[0.9, 0.2]], [[0]], count=3)
    assert result.negatives == [[1]]
    assert result.documents.tolist() == [[1, -1, -1]]
    assert np.isnan(result.scores[0, 1:]).all()
    assert mined([[0.9]], [[0]]).negatives == [[]]


def test_counts_of_what_was_refused_name_the_first_rule():
    result = mined(
        [ROW], [[0]], rank_min=1, percent_of_positive=0.95, max_score=0.45, min_score=0.35
    )
    assert result.considered == 5
    assert result.refused == {"rank_min": 1, "margin": 1, "max_score": 1, "min_score": 1}
    assert result.negatives == [[4]]
    assert (result.nearest.tolist(), result.ranks.tolist()) == ([1], [[3, -1, -1]])


def test_random_choice_depends_on_the_query_alone_and_is_even():
    scores = np.tile(np.linspace(0.9, 0.1, 9), (400, 1))
    found = negatives(scores, [[0]] * 400, count=2, sampling="random", rank_max=8)
    assert all(len(set(row)) == 2 and row == sorted(row) for row in found)
    counts = np.bincount(np.concatenate(found), minlength=9)
    assert counts[0] == 0
    assert abs(counts[1:] / 400 - 0.25).max() < 0.08  # four deviations: 0.087
    again = negatives(scores[::-1][:7], [[0]] * 7, count=2, sampling="random", rank_max=8)
    assert again == found[:7]


def test_impossible_rules_are_refused():
    with pytest.raises(UserError, match="ranks 5 to 6 hold fewer than 3"):
        Rules(3, rank_min=5, rank_max=6)
    with pytest.raises(UserError, match="query 1 has no positive that a margin could refer to"):
        mined([[0.9, 0.1], [0.9, 0.1]], [[0], []], percent_of_positive=0.95)
    with pytest.raises(UserError, match="query 0 has a positive that is none of the 2 documents"):
        mined([[0.9, 0.1]], [[2]])
    with pytest.raises(UserError, match=r"queries are \[2, 3\] and documents \[2, 4\]"):
        mine(np.ones((2, 3)), np.ones((2, 4)), [[0], [0]], count=1)
