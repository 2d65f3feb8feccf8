"""Masking: the shares it promises, words only, a pure function of text and key."""

from __future__ import annotations

import numpy as np
import pytest

from embedexp.config.schema.language import MLM
from embedexp.loss.language import IGNORED
from embedexp.loss.mlm import Words, build

MASK, SPECIAL, SIZE = 4, 10, 1000
WORDS = Words(MASK, range(SPECIAL, SIZE))


def masking(probability=0.3, mask=0.8, random=0.1):
    """The masking of an option."""
    replacement = {"mask": mask, "random": random}
    return build(MLM(name="mlm", tasks=["sts"], probability=probability, replacement=replacement))


def text(count=200_000):
    """Random tokens, a tenth of them special."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(SPECIAL, SIZE, count)
    tokens[rng.random(count) < 0.1] = rng.integers(0, SPECIAL)
    return tokens


@pytest.mark.parametrize("probability", [0.15, 0.3])
def test_each_word_is_hidden_with_the_given_probability_and_no_special_token_is(probability):
    tokens = text()
    _, labels = masking(probability)(tokens, 7, WORDS)
    words = tokens >= SPECIAL
    assert abs((labels[words] != IGNORED).mean() - probability) < 0.005
    assert (labels[~words] == IGNORED).all()
    hidden = labels != IGNORED
    assert (labels[hidden] == tokens[hidden]).all()


def test_hidden_words_become_the_mask_a_random_word_or_stay_by_their_shares():
    tokens = text()
    seen, labels = masking(mask=0.6, random=0.3)(tokens, 7, WORDS)
    hidden = labels != IGNORED
    assert (seen[~hidden] == tokens[~hidden]).all()
    masked = seen[hidden] == MASK
    same = seen[hidden] == tokens[hidden]
    assert abs(masked.mean() - 0.6) < 0.01
    assert abs(same.mean() - 0.1) < 0.01
    swapped = seen[hidden][~masked & ~same]
    assert swapped.min() >= SPECIAL
    assert len(np.unique(swapped)) > 0.95 * (SIZE - SPECIAL)


def test_the_same_key_hides_the_same_words_and_another_key_others():
    tokens = text(1000)
    first, again, other = (masking()(tokens, key, WORDS) for key in (7, 7, 8))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert (first[1] != other[1]).mean() > 0.2


def test_what_is_hidden_is_known_without_replacing_anything():
    tokens = text(5000)
    _, labels = masking()(tokens, 3, WORDS)
    np.testing.assert_array_equal(masking().hidden(tokens, 3, WORDS), labels != IGNORED)


def test_which_word_stands_in_says_nothing_of_which_is_hidden():
    """The draws for the fate of a word are not those that hid it."""
    tokens = text()
    seen, labels = masking(probability=0.3, mask=0.5, random=0.5)(tokens, 7, WORDS)
    hidden = labels != IGNORED
    assert abs((seen[hidden] == MASK).mean() - 0.5) < 0.01
