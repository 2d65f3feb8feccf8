"""What stage=contrastive refuses before it trains."""

from __future__ import annotations

import json

import pytest

import embedexp
from embedexp import data
from embedexp.config.errors import UserError
from embedexp.stage.contrastive import require_filled


def test_a_batch_larger_than_the_data_is_refused(tmp_path):
    lines = [json.dumps({"query": f"q{i}", "positive": f"p{i}"}) for i in range(5)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    options = ["backbone=tiny", "data=jsonl", f"data.path={tmp_path}/pairs.jsonl", "data.holdout=0"]
    for size, fits in ((5, True), (6, False)):
        config = embedexp.compose([*options, f"batching.size={size}"])
        corpus = data.load(config.data)
        if fits:
            require_filled(config, corpus)
        else:
            with pytest.raises(UserError, match=r"size=6 is more than the 5.*pairs\n.*size=5"):
                require_filled(config, corpus)
