"""The signature changes with what changes results, with nothing else, and never by accident."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedexp.config import Config, compose
from embedexp.config.frozen import load
from embedexp.config.sign import canonical_json, identity

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).with_name("golden_signatures.json")
EXPERIMENTS: dict[str, list[str]] = {
    "default": [],
    "moe, soft mask": ["routing=moe", "mask_schedule=linear"],
    "task experts": ["routing=mote", "loss=task_aware", "batching=task_aware"],
    "scored pairs": ["loss=cosent", "embedding=last_token"],
    "small causal model": ["backbone=tiny_llama", "mask_schedule=causal", "scale=demo"],
    "code": ["data=stdlib_code", "batching=heterogeneous", "seed=1"],
    "evaluation only": ["stage=evaluate", "stage.model=a-model"],
}


def without_data(config: Config) -> str:
    """The identity as JSON; the content of the data is the data's own test."""
    whole = identity(config)
    whole.pop("fingerprints", None)
    return canonical_json(whole)


def signatures() -> dict[str, str]:
    """A hash for each of the experiments, independent of this machine's files."""
    from hashlib import sha256

    return {
        name: sha256(without_data(compose(overrides)).encode()).hexdigest()[:10]
        for name, overrides in EXPERIMENTS.items()
    }


def test_golden_signatures() -> None:
    assert signatures() == json.loads(GOLDEN.read_text()), (
        "signatures have changed, so that finished runs will not be found again; "
        "if that is meant: python -m tests.unit.config.test_signature"
    )


@pytest.mark.parametrize(
    "same",
    [
        ["name=other"],
        ["rerun=true"],
        ["paths.runs=elsewhere"],
        ["tracking=none"],
        ["tracking.mode=online"],
        ["compute=gpu"],
        ["compute.threads=1"],
        ["training.log_every=7"],
        ["training.checkpoint_every=7"],
        ["loss.temperature=5e-2"],
        ["optimizer.learning_rate=0.0001"],
        ["data.weights.wordnet_definitions=4"],
    ],
    ids=" ".join,
)
def test_what_does_not_change_the_result_does_not_count(same: list[str]) -> None:
    assert compose(same).signature == compose([]).signature


@pytest.mark.parametrize(
    "other",
    [
        ["seed=1"],
        ["training.steps=61"],
        ["loss.temperature=0.06"],
        ["routing=moe"],
        ["evaluation.max_queries=10"],
        ["backbone.layers=3"],
        ["data.max_examples=1000"],
    ],
    ids=" ".join,
)
def test_what_changes_the_result_counts(other: list[str]) -> None:
    assert compose(other).signature != compose([]).signature


def test_a_config_from_before_a_key_existed_is_the_same_experiment(tmp_path: Path) -> None:
    config = compose([])
    text = config.to_yaml()
    line = "  quantization: none\n"
    assert text.count(line) == 1
    (tmp_path / "config.yaml").write_text(text.replace(line, ""))
    assert load(tmp_path) == config
    assert load(tmp_path).signature == config.signature


def test_the_cell_is_the_signature_without_the_seed() -> None:
    a, b = compose(["seed=1"]), compose(["seed=2"])
    assert a.cell == b.cell
    assert a.signature != b.signature
    assert a.cell != compose(["training.steps=5"]).cell


def test_groups_that_the_stage_does_not_use_do_not_count() -> None:
    counted = identity(compose(["stage=evaluate", "stage.model=m"]))
    assert "loss" not in counted
    assert "data" not in counted
    assert counted["stage"]["model"] == "m"


def test_the_content_of_files_counts_and_their_place_does_not(tmp_path: Path) -> None:
    def signed(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        lines = [f"data.path={tmp_path / name}", "data.holdout=0", "batching.size=2"]
        return compose(["data=jsonl", *lines]).signature

    text = json.dumps({"query": "a", "positive": "b"}) + "\n"
    first = signed("one.jsonl", text * 3)
    assert signed("two.jsonl", text * 3) == first
    assert signed("two.jsonl", text * 4) != first


def test_the_content_of_mined_negatives_counts(tmp_path: Path) -> None:
    def signed(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return compose(["negatives=mined_file", f"negatives.path={tmp_path / name}"]).signature

    assert signed("a.jsonl", "{}") == signed("b.jsonl", "{}")
    assert signed("b.jsonl", "{} ") != signed("a.jsonl", "{}")


def test_a_changed_copy_has_its_own_identity() -> None:
    config = compose([])
    assert config.signature
    assert config.model_copy(update={"seed": 9}).signature == compose(["seed=9"]).signature


def test_numbers_have_one_spelling() -> None:
    same: Callable[[object, object], bool] = lambda a, b: canonical_json(a) == canonical_json(b)  # noqa: E731
    assert same({"a": 1.0, "b": [1e-4]}, {"b": (0.0001,), "a": 1})
    assert not same({"a": True}, {"a": 1})
    assert not same({"a": "1"}, {"a": 1})


def test_the_run_is_named_after_experiment_and_signature() -> None:
    config = compose(["name=mine"])
    assert config.run_name == f"mine-{config.signature}"
    assert len(config.signature) == 10
    assert int(config.signature, 16) >= 0


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(signatures(), indent=2) + "\n")
    print(f"pinned {len(EXPERIMENTS)} signatures in {GOLDEN.name}")


@pytest.mark.parametrize("whole", [2**30, 0], ids=["whole", "in samples"])
def test_the_content_of_a_local_model_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    import numpy as np
    from safetensors.numpy import save_file

    monkeypatch.setattr("embedexp.config.sign._WHOLE_BYTES", whole)
    overrides = ["stage=evaluate", f"stage.model={tmp_path}"]
    tensors = {"a": np.zeros(100_000, np.float32), "b": np.zeros((3, 4), np.float32)}

    def signed() -> str:
        save_file(tensors, tmp_path / "model.safetensors")
        return compose(overrides).signature

    first = signed()
    assert signed() == first
    tensors["b"][0, 1] = 1
    second = signed()
    tensors["a"] = tensors["a"][:-1]
    assert len({first, second, signed()}) == 3
