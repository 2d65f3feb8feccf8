"""Only the answer is learned, its end included."""

from __future__ import annotations

import numpy as np
import yaml

from embedexp.config.locations import conf_dir
from embedexp.config.schema.language import SFT
from embedexp.loss.sft import build


def test_labels_are_the_answers_tokens_and_the_end_token():
    option = SFT.model_validate(yaml.safe_load((conf_dir() / "loss" / "sft.yaml").read_text()))
    prompt, answer, end = [1, 2, 3], [7, 8], [0]
    tokens = np.array([*prompt, *answer, *end, 4, 9, *end])
    labels = build(option)(tokens, np.array([0, 6, 9]), np.array([3, 1]))
    # The last token of a prompt predicts the first of its answer; the end token predicts nothing.
    assert labels.tolist() == [-100, -100, 7, 8, 0, -100, 9, 0, -100]
