"""Next-token labels stay within their sequence."""

from __future__ import annotations

import numpy as np
import torch
from transformers.loss.loss_utils import ForCausalLMLoss

from embedexp.config.schema.language import CausalLM
from embedexp.loss.causal_lm import build
from embedexp.loss.language import token_cross_entropy

NEXT = build(CausalLM(name="causal_lm", tasks=["sts"]))


def test_each_token_but_the_last_of_a_sequence_is_followed_by_the_next():
    tokens = np.array([5, 6, 7, 8, 9, 10])
    labels = NEXT(tokens, np.array([0, 3, 4, 6]))
    assert labels.tolist() == [6, 7, -100, -100, 10, -100]


def test_the_loss_of_a_sequence_is_transformers_own():
    torch.manual_seed(0)
    tokens, matrix, hidden = torch.randint(0, 20, (9,)), torch.randn(20, 4), torch.randn(9, 4)
    labels = torch.from_numpy(NEXT(tokens.numpy(), np.array([0, 9])))
    kept = labels >= 0
    ours = token_cross_entropy(hidden[kept], matrix, None, labels[kept]).total / kept.sum()
    theirs = ForCausalLMLoss((hidden @ matrix.T)[None], tokens[None], vocab_size=20)
    torch.testing.assert_close(ours, theirs)
