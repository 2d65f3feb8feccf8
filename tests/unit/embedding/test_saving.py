from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from embedexp.config.errors import UserError
from embedexp.embedding import load, saving

from .conftest import PROMPTS, build

KINDS = {
    "dense": ("tiny", "dense"),
    "dense causal": ("tiny_llama", "dense", "causal", "last_token"),
    "other mask": ("tiny_llama", "dense", "linear"),
    "moe": ("tiny", "moe"),
    "mote": ("tiny_llama", "mote", "bidirectional"),
}


def disturbed(embedder):
    """As after training: experts differ, norms are not ones."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in embedder.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return embedder


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_equal_bit_for_bit(kind, tmp_path, texts):
    embedder = disturbed(
        build(*KINDS[kind], embedding__prompts=PROMPTS, backbone__layers=2, embedding__width=64)
    )
    embedder.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for task in PROMPTS:
        np.testing.assert_array_equal(
            again.encode(texts, task=task), embedder.encode(texts, task=task)
        )
    groups = ("routing", "mask_schedule", "embedding")
    assert all(getattr(again.config, g) == getattr(embedder.config, g) for g in groups)
    assert not list(tmp_path.glob(".*"))


def test_a_finished_run_is_its_model(tmp_path, texts):
    embedder = build("tiny", "mote")
    embedder.save(tmp_path / "run" / "model")
    (tmp_path / "run" / "status.json").write_text("{}")
    np.testing.assert_array_equal(load(tmp_path / "run").encode(texts), embedder.encode(texts))


def test_a_moved_folder_loads(tmp_path, texts):
    embedder = build("tiny")
    embedder.save(tmp_path / "a")
    (tmp_path / "a").rename(tmp_path / "b")
    np.testing.assert_array_equal(load(tmp_path / "b").encode(texts), embedder.encode(texts))
    assert str(tmp_path) not in (tmp_path / "b" / "embedexp.json").read_text()


def test_kept_layers_stay_kept(tmp_path, texts):
    embedder = build("tiny", "moe", backbone__layers=1, routing__placement="every")
    embedder.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert len(again.model.encoder.layer) == 1
    np.testing.assert_array_equal(again.encode(texts), embedder.encode(texts))


def test_saving_again_replaces_the_whole_folder(tmp_path, texts):
    build("tiny").save(tmp_path / "model")
    moe = build("tiny", "moe")
    moe.save(tmp_path / "model")
    assert not (tmp_path / "model" / "config.json").exists()
    np.testing.assert_array_equal(load(tmp_path / "model").encode(texts), moe.encode(texts))


def test_a_failed_save_leaves_the_old_model_and_no_debris(tmp_path, texts, monkeypatch):
    old = build("tiny")
    old.save(tmp_path / "model")

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(saving, "write_weights", fail)
    with pytest.raises(OSError, match="disk full"):
        build("tiny", "moe").save(tmp_path / "model")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    np.testing.assert_array_equal(load(tmp_path / "model").encode(texts), old.encode(texts))


def test_a_folder_with_other_things_is_not_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not a model folder"):
        build("tiny").save(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


def test_only_safetensors_are_written(tmp_path):
    for routing in ("dense", "mote"):
        build("tiny", routing).save(tmp_path / routing)
        names = {p.name for p in (tmp_path / routing).rglob("*") if p.is_file()}
        assert "model.safetensors" in names
        assert not any(name.endswith((".bin", ".pt", ".pkl", ".py")) for name in names)


def test_experts_cannot_be_mistaken_for_a_dense_model(tmp_path):
    from transformers import AutoModel

    build("tiny", "moe").save(tmp_path / "model")
    with pytest.raises((ValueError, OSError)):
        AutoModel.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda c: c | {"format": 99}, "another version of embedexp wrote this model: format 99"),
        (lambda c: {**c, "model": {}}, "another version of embedexp wrote this model"),
    ],
)
def test_a_model_of_another_version_says_so(tmp_path, damage, message):
    build("tiny").save(tmp_path / "model")
    path = tmp_path / "model" / "embedexp.json"
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with pytest.raises(UserError, match=message):
        load(tmp_path / "model")


def test_weights_that_do_not_fit_are_refused(tmp_path):
    build("tiny", "moe").save(tmp_path / "moe")
    build("tiny", "mote").save(tmp_path / "mote")
    (tmp_path / "mote" / "model.safetensors").replace(tmp_path / "moe" / "model.safetensors")
    with pytest.raises(UserError, match="weights do not fit") as error:
        load(tmp_path / "moe")
    assert len(str(error.value).splitlines()) <= 3


def test_a_saved_model_cannot_ask_for_code(tmp_path):
    build("tiny").save(tmp_path / "model")
    path = tmp_path / "model" / "embedexp.json"
    content = json.loads(path.read_text())
    content["model"]["backbone"]["trust_remote_code"] = True
    path.write_text(json.dumps(content))
    assert load(tmp_path / "model").config.backbone.trust_remote_code is False
