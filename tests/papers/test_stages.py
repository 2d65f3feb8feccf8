"""Every stage of the papers has the published values, and says which those are."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import yaml

from embedexp.cli.commands import run_command
from embedexp.config import compose
from embedexp.config.figures import figures
from embedexp.config.mixture_counts import wanted
from embedexp.config.provenance import MARKS, split
from embedexp.config.show import show

from .published import EXAMPLES, NEMOTRON, NEMOTRON_TABLE_9, NOMIC, VALUES, WHOLE_EPOCHS
from .support import NAMES, PAPERS, WANTED, at, at_full_scale

OFFLINE_DATA = ("builtin", "debian", "stdlib_code")


@pytest.mark.parametrize("name", NAMES)
def test_it_composes_as_published_and_marks_what_it_says(name: str) -> None:
    config = at_full_scale(name)
    assert config.scale.name == "full"
    marks = {key: split(mark)[0] for key, mark in config.provenance.items()}
    given = {key for override in WANTED.get(name, []) for key in [override.partition("=")[0]]}
    assert {key for key, mark in marks.items() if mark == "changed"} <= given
    assert set(marks.values()) <= set(MARKS)
    assert "published" in marks.values() or "code" in marks.values()


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_shared_evenly_by_the_published_machines(name: str) -> None:
    config = at_full_scale(name)
    if "training" in config.stage.uses and hasattr(config.compute, "nodes"):
        assert config.batching.size % (config.compute.nodes * config.compute.devices) == 0


@pytest.mark.parametrize("name", VALUES)
def test_values_are_the_published_ones(name: str) -> None:
    config = at_full_scale(name)
    assert {key: at(config, key) for key in VALUES[name]} == VALUES[name]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_seen_are_the_published_ones(name: str) -> None:
    config = at_full_scale(name)
    seen, relative = EXAMPLES[name]
    assert config.training.steps * config.batching.size == pytest.approx(seen, rel=relative)


@pytest.mark.parametrize("name", WHOLE_EPOCHS)
def test_an_epoch_is_an_epoch(name: str) -> None:
    epochs = figures(at_full_scale(name)).epochs
    assert epochs == pytest.approx(1, abs=1e-6)


def test_counts_of_the_mixtures_add_up_to_the_papers() -> None:
    data: Any = at_full_scale(f"{NEMOTRON}/stage2").data
    assert sorted(c or 0 for c in wanted(data).values()) == sorted(NEMOTRON_TABLE_9)
    assert sum(NEMOTRON_TABLE_9) == 4_309_502
    nomic: Any = at_full_scale(f"{NOMIC}/finetune").data
    counts = wanted(nomic)
    miracl = sum(count or 0 for key, count in counts.items() if key.startswith("miracl_"))
    assert miracl == 1_029_632 - 485_120 - 249_856 - 87_552 - 82_432 - 57_856 - 28_672
    mix: Any = at_full_scale(f"{NEMOTRON}/ablation_1b_mix").data
    assert sum(c or 0 for k, c in wanted(mix).items() if k.startswith("synthetic_")) == 100_000


def test_the_four_losses_of_nemotron_differ_in_nothing_else_but_the_negatives() -> None:
    plain = at_full_scale(f"{NEMOTRON}/ablation_1b")
    for other in ("gecko", "gemini", "qwen3"):
        config = at_full_scale(f"{NEMOTRON}/ablation_1b_{other}")
        assert config.loss != plain.loss
        for group in ("backbone", "embedding", "data", "batching", "optimizer", "training"):
            assert getattr(config, group) == getattr(plain, group)


def test_task_aware_learning_is_what_mote_is_trained_with() -> None:
    assert at_full_scale("mote/mote").signature == at_full_scale("mote/ta_cl").signature


@pytest.mark.parametrize("path", sorted(PAPERS.rglob("*.yaml")), ids=lambda p: p.stem)
def test_values_that_differ_between_paper_and_code_say_both(path: Any) -> None:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not path.stem.endswith(("_as_run", "_as_printed")):
        return
    assert any("published:" in mark or "code:" in mark for mark in content["provenance"].values())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_at_demo_scale_needs_a_hub(name: str) -> None:
    overrides = [f"+paper={name}", "scale=demo", *WANTED.get(name, [])]
    content = yaml.safe_load((PAPERS / f"{name}.yaml").read_text(encoding="utf-8"))
    if any(key.startswith(("merge.", "stage.model")) for key in WANTED.get(name, [])):
        assert "evaluation=builtin" in content["demo"]
        return
    overrides = [text for text in overrides if not text.startswith("negatives.path")]
    config = compose(overrides)
    uses = config.stage.uses
    if "data" in uses:
        assert config.data.name in OFFLINE_DATA
    if "backbone" in uses:
        assert config.backbone.weights == "random" or _is_the_options_own(config.backbone)
    if "evaluation" in uses:
        assert config.evaluation.name in ("builtin", "none")
    assert config.compute.name == "cpu"
    assert not any("hub" in warning for warning in config.warnings)


def _is_the_options_own(backbone: Any) -> bool:
    """Its source is the one whose files its package holds, not one that the paper names."""
    plain = _option(backbone.name)
    return plain.package is not None and backbone.source == plain.source


@cache
def _option(name: str) -> Any:
    return compose([f"backbone={name}"]).backbone


def test_what_is_typed_counts_more_than_what_stands_in() -> None:
    typed = ["backbone=tiny", "loss.matryoshka.widths=[128,64]", "seed=3"]
    config = compose([f"+paper={NOMIC}/finetune", "scale=demo", *typed])
    assert (config.backbone.name, config.data.name, config.seed) == ("tiny", "builtin", 3)
    assert compose([f"+paper={NOMIC}/finetune", "scale=demo", "demo=[]"]).data.name == "mixture"


def test_another_option_takes_the_values_that_it_has_and_no_others() -> None:
    config = compose([f"+paper={NEMOTRON}/ablation_1b", "loss=qwen3", "negatives=none"])
    assert config.loss.name == "qwen3"
    assert config.loss.temperature == 0.02
    assert config.provenance["loss.name"].startswith("changed; published: nemotron")
    assert config.provenance["negatives"] == "changed; own in the paper"


def test_a_key_that_another_option_leaves_to_the_user_can_be_given(tmp_path: Any) -> None:
    mined = tmp_path / "mined.jsonl"
    mined.write_text('{"query": "q", "negatives": ["n"]}\n')
    chosen = ["negatives=mined_file", f"negatives.path={mined}"]
    for scale in ("full", "demo"):
        config = compose([f"+paper={NOMIC}/finetune", f"scale={scale}", *chosen])
        assert config.negatives.path == str(mined)
        assert config.negatives.count == 10, "the paper's"


def test_show_says_what_was_changed_and_what_the_code_does() -> None:
    text = " ".join(show(compose([f"+paper={NOMIC}/pretrain", "loss.temperature=0.1"])).split())
    assert "changed loss.temperature = 0.1 (published: 0.02)" in text
    assert "published optimizer.schedule = cosine (code: inverse_sqrt)" in text
    assert "at scale=demo, this would stand in front of your overrides backbone=minilm" in text


def test_diff_names_what_is_not_as_published(capsys: pytest.CaptureFixture[str]) -> None:
    run_command("diff", [f"+paper={NOMIC}/pretrain loss.temperature=0.1"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["loss.temperature", "0.02", "0.1"] in rows
    assert len([row for row in rows if row and "." in row[0]]) == 1
