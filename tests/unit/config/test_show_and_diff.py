"""`show` says what an experiment is, `diff` where two differ; both in figures that are true."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embedexp.config import brief, compose
from embedexp.config.figures import figures, human, parameters
from embedexp.config.show import diff, show

if TYPE_CHECKING:
    from pathlib import Path


def test_show_tells_model_data_training_and_identity() -> None:
    config = compose(["routing=moe", "training.steps=100", "batching.size=32", "scale=demo"])
    text = show(config)
    counts = parameters(config)
    assert f"{counts['total']:,}" in text
    assert counts["active"] < counts["total"]
    assert "8 experts, 2 per token" in text
    assert "20 steps of 32: 640 examples" in text
    assert "4 of 6 layers" in text
    assert "other_positives, own_hard_negatives" in text
    assert config.signature in text
    assert config.cell in text
    assert f"runs/{config.run_name}" in text


def test_examples_epochs_and_tokens_are_counted() -> None:
    config = compose(
        [
            "data.tasks=[retrieval]",
            "data.max_examples=1000",
            "training.steps=50",
            "batching.size=40",
        ]
    )
    sizes = figures(config)
    assert sizes.datasets == (("wordnet_definitions", "retrieval", 1000),)
    assert sizes.examples_seen == 2000
    assert sizes.epochs == 2.0
    assert sizes.most_tokens == 2000 * (64 + 128)


def test_texts_that_are_no_search_queries_have_the_documents_limit() -> None:
    one_step = ["training.steps=1", "batching.size=10", "data.tasks=[clustering]"]
    assert figures(compose(one_step)).most_tokens == 10 * (128 + 128)


def test_hard_negatives_count_as_documents(tmp_path: Path) -> None:
    file = tmp_path / "mined.jsonl"
    file.write_text("{}")
    retrieval = ["data.tasks=[retrieval]"]
    mined = ["negatives=mined_file", f"negatives.path={file}", "negatives.count=3"]
    config, plain = compose([*retrieval, *mined]), compose(retrieval)
    more = figures(config).most_tokens / figures(plain).most_tokens
    assert more == (64 + 4 * 128) / (64 + 128)


@pytest.mark.parametrize(
    "overrides",
    [
        ["routing=mote", "loss=task_aware", "batching=task_aware"],
        ["loss=cosent", "evaluation=none"],
        ["stage=evaluate", "stage.model=m"],
        ["backbone=tiny_llama", "mask_schedule=linear", "embedding=last_token"],
    ],
    ids=" ".join,
)
def test_every_kind_of_experiment_can_be_shown(overrides: list[str]) -> None:
    config = compose(overrides)
    for text in (show(config), brief(config)):
        assert config.run_name in text
        assert "None" not in text
    assert len(brief(config).splitlines()) <= 8


def test_marks_of_provenance_are_shown_beside_what_they_mark() -> None:
    config = compose(["+provenance.loss=published", "+provenance.optimizer=ours"])
    lines = show(config).splitlines()
    marked = {line.split()[0]: line for line in lines if "[" in line}
    assert "[ours]" in marked["optimizer"]
    assert any("published" in line and "loss = infonce" in line for line in lines)


def test_warnings_are_shown() -> None:
    config = compose(["mask_schedule=causal"])
    for text in (show(config), brief(config)):
        assert f"warning: {config.warnings[0]}" in text


def test_diff_keeps_what_counts_apart() -> None:
    a, b = compose([]), compose(["routing=moe", "loss.temperature=0.02", "tracking=none"])
    counted, _, other = diff(a, b).partition("\n\n")
    assert "loss.temperature" in counted
    assert "routing.num_experts" in counted
    assert "tracking.name" in other
    assert "tracking.name" not in counted
    row = next(line for line in counted.splitlines() if "loss.temperature" in line)
    assert row.split() == ["loss.temperature", "0.05", "0.02"]


def test_diff_of_equal_experiments_says_so() -> None:
    assert "the same experiment" in diff(compose([]), compose([]))
    text = diff(compose([]), compose(["tracking=none"]))
    assert "both have the signature" in text


def test_counts_read_as_people_say_them() -> None:
    counts = [7, 999, 1000, 22_565_376, 999_600, 1_503_000_000]
    assert [human(count) for count in counts] == ["7", "999", "1k", "22.6M", "1M", "1.5B"]


def test_the_embedding_is_told_with_all_that_makes_it() -> None:
    plain = show(compose(["+prompts=nomic"]))
    assert "without the instruction" not in plain
    assert "search_query='search_query: '" in plain
    excluded = show(compose(["+prompts=nomic", "embedding.exclude_instruction=true"]))
    assert "mean without the instruction" in excluded
    moee = ["routing=moe", "embedding=moee", "embedding.source=sum", "embedding.alpha=2"]
    words = " ".join(show(compose(moee)).split())
    assert "moee, the sum of their cosines (router probabilities, last token; alpha 2)" in words
