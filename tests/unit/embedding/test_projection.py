"""A linear layer after pooling: as sentence-transformers' Dense, wherever a model goes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import embedexp
from embedexp.backbone.counts import parameter_counts
from embedexp.config.errors import UserError
from embedexp.config.schema.merge import Uniform
from embedexp.embedding import build_embedder, load
from embedexp.merge import merge
from embedexp.routing import parameter_counts as counted

from ..backbone.options import model_config
from .conftest import build
from .test_continuing import next_stage

WIDE = 200  # more than the 128 of the hidden states


def test_vectors_are_pooled_then_projected_then_cut_and_normalised(texts):
    embedder = build("tiny", embedding__projection=WIDE, embedding__width=150)
    plain = build("tiny", embedding__normalize=False).encode(texts).astype(np.float64)
    layer = {name: value.detach().double().numpy() for name, value in embedder.named_parameters()}
    expected = plain @ layer["projection.weight"].T + layer["projection.bias"]
    expected = expected[:, :150] / np.linalg.norm(expected[:, :150], axis=1, keepdims=True)
    found = embedder.encode(texts)
    assert found.shape == (len(texts), 150) == (len(texts), embedder.width)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_layer_is_counted_with_and_without_a_model():
    config = model_config("tiny", changes={"embedding.projection": WIDE})
    wanted = parameter_counts(model_config("tiny"))["total"] + WIDE * 128 + WIDE
    assert parameter_counts(config)["total"] == wanted
    assert counted(build_embedder(config))["total"] == wanted
    assert counted(build_embedder(config, "meta"))["total"] == wanted


def test_the_rest_of_the_model_is_the_same_as_without_it():
    with_layer, without = build("tiny", embedding__projection=WIDE), build("tiny")
    state = with_layer.model.state_dict()
    assert all(
        torch.equal(value, state[name]) for name, value in without.model.state_dict().items()
    )


@pytest.mark.parametrize("routing", ["dense", "moe"])
@pytest.mark.parametrize("width", [None, 150])
def test_a_saved_model_and_the_stage_after_it_have_the_same_layer(routing, width, tmp_path, texts):
    options = {"embedding__projection": WIDE, "embedding__width": width}
    source = build("tiny", routing, **options)
    source.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").encode(texts), source.encode(texts))
    again = build_embedder(next_stage(source, tmp_path / "model", embedding__width=width))
    np.testing.assert_array_equal(again.encode(texts), source.encode(texts))


@pytest.mark.parametrize("width", [None, 150])
def test_sentence_transformers_reads_it_as_dense(width, tmp_path, texts):
    module = pytest.importorskip("sentence_transformers")
    embedder = build("tiny", embedding__projection=WIDE, embedding__width=width)
    embedder.save(tmp_path / "model")
    theirs = module.SentenceTransformer(str(tmp_path / "model"), device="cpu")
    np.testing.assert_allclose(theirs.encode(texts), embedder.encode(texts), atol=1e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_a_model_made_elsewhere_with_a_dense_layer(bias, tmp_path, texts):
    theirs = foreign(tmp_path, bias)
    ours = load(tmp_path / "theirs")
    assert ours.config.embedding.projection == ours.width == 40
    np.testing.assert_allclose(ours.encode(texts), theirs.encode(texts), atol=1e-6)


def test_what_follows_a_dense_layer_is_not_left_out(tmp_path):
    foreign(tmp_path, True, torch.nn.Tanh())
    with pytest.raises(UserError, match="followed by Tanh, which is not supported"):
        load(tmp_path / "theirs")


def foreign(folder, bias, activation=None):
    """A model of sentence-transformers that ends in a linear layer to 40 dimensions."""
    module = pytest.importorskip("sentence_transformers")
    from sentence_transformers.models import Dense

    build("tiny", embedding__normalize=False).save(folder / "plain")
    theirs = module.SentenceTransformer(str(folder / "plain"), device="cpu")
    torch.manual_seed(0)
    function = {"activation_function": activation or torch.nn.Identity()}
    theirs.append(Dense(128, 40, bias=bias, **function))
    theirs.save(str(folder / "theirs"))
    (folder / "theirs" / "embedexp.json").unlink(missing_ok=True)
    return theirs


def test_a_source_that_ends_in_a_layer_does_not_lose_it_in_silence(tmp_path):
    source = build("tiny", embedding__projection=WIDE)
    source.save(tmp_path / "model")
    for other in (None, 64):
        with pytest.raises(UserError, match=f"linear layer to {WIDE} dimensions") as told:
            build_embedder(next_stage(source, tmp_path / "model", embedding__projection=other))
        assert f"embedding.projection={WIDE}" in str(told.value)


@pytest.mark.parametrize("activation", [None, torch.nn.Tanh()])
def test_the_backbone_alone_of_a_model_made_elsewhere_is_a_source(
    tmp_path, texts, activation, caplog
):
    foreign(tmp_path, True, activation)
    found = build_embedder(next_stage(build("tiny"), tmp_path / "theirs"))
    np.testing.assert_array_equal(found.encode(texts), build("tiny").encode(texts))
    assert "ends in a linear layer, which is left out" in caplog.text


def test_what_sentence_transformers_saves_of_a_cut_layer_comes_back(tmp_path, texts):
    embedder = build("tiny", embedding__projection=WIDE, embedding__width=150)
    embedder.save(tmp_path / "model")
    (tmp_path / "model" / "embedexp.json").unlink()
    found = load(tmp_path / "model")
    assert found.config.embedding.projection == 150
    np.testing.assert_allclose(found.encode(texts), embedder.encode(texts), atol=1e-6)


def test_language_modelling_carries_the_layer_of_its_source_along(tmp_path, texts):
    source = build("tiny", embedding__projection=WIDE)
    source.save(tmp_path / "model")
    words = ["stage=mlm", "loss=mlm", "backbone=tiny", "data.max_examples=40", "batching.size=4"]
    words += ["backbone.weights=pretrained", f"backbone.source={tmp_path / 'model'}"]
    words += ["training.steps=2", "tracking=none", "evaluation=none", f"paths.runs={tmp_path}"]
    run = embedexp.run(embedexp.compose([*words, f"embedding.projection={WIDE}"]), quiet=True)
    found = load(run.model)
    torch.testing.assert_close(found.projection.weight, source.projection.weight, rtol=0, atol=0)
    assert not np.allclose(found.encode(texts), source.encode(texts), atol=1e-4)


def test_weights_that_are_not_there_are_missed(tmp_path):
    build("tiny", embedding__projection=WIDE).save(tmp_path / "model")
    (tmp_path / "model" / "projection.safetensors").unlink()
    with pytest.raises(UserError, match="weights of the model's linear layer are not there"):
        load(tmp_path / "model")


def test_merged_models_have_the_average_layer(tmp_path, texts):
    made = [build("tiny", embedding__projection=WIDE) for _ in range(2)]
    with torch.no_grad():
        made[1].projection.weight += 0.1
    for number, embedder in enumerate(made):
        embedder.save(tmp_path / f"m{number}")
    inputs = [str(tmp_path / f"m{number}") for number in range(2)]
    merge(Uniform(name="uniform", inputs=inputs), tmp_path / "merged")
    found = load(tmp_path / "merged")
    expected = made[0].projection.weight + 0.05
    torch.testing.assert_close(found.projection.weight, expected, rtol=0, atol=1e-7)
    module = pytest.importorskip("sentence_transformers")
    theirs = module.SentenceTransformer(
        str(tmp_path / "merged"), device="cpu", trust_remote_code=True
    )
    np.testing.assert_allclose(theirs.encode(texts), found.encode(texts), atol=1e-6)


def test_onnx_has_the_layer_too(tmp_path, texts):
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name)
    runtime = pytest.importorskip("onnxruntime")
    from embedexp.embedding.export import write

    embedder = build("tiny", embedding__projection=40)
    folder = tmp_path / "model"
    folder.mkdir()
    write(embedder, "onnx", folder)  # compares its vectors with the model's
    session = runtime.InferenceSession(str(folder / "onnx" / "model.onnx"))
    assert session.get_outputs()[1].shape[1] == 40


def test_nomics_layout_has_it_beside_the_rest(tmp_path, texts):
    from embedexp.embedding.export import write

    rotary = {"base": 10000.0, "max_length": 512}
    embedder = build("tiny", embedding__projection=40, backbone__positions=rotary)
    write(embedder, "nomic", tmp_path)
    np.testing.assert_allclose(load(tmp_path).encode(texts), embedder.encode(texts), atol=1e-6)


def test_vectors_can_be_cut_to_what_the_layer_gives():
    wide = ["embedding.projection=512", "embedding.width=500"]
    assert embedexp.compose(wide).embedding.width == 500
    with pytest.raises(UserError, match=r"the 512 dimensions of embedding\.projection"):
        embedexp.compose(["embedding.projection=512", "embedding.width=513"])
    with pytest.raises(UserError, match="no effect in stage=mlm"):
        embedexp.compose(["stage=mlm", "loss=mlm", "embedding.projection=512"])
    embedexp.compose(["embedding.projection=512", "loss.matryoshka.widths=[512,64]"])
    (told,) = embedexp.compose(["stage=zero_shot", "embedding.projection=7"]).warnings
    assert "drawn at random and not trained" in str(told)


def test_a_folder_that_was_written_before_there_were_such_layers(tmp_path, texts):
    source = build("tiny")
    source.save(tmp_path / "model")
    path = Path(tmp_path / "model" / "embedexp.json")
    content = json.loads(path.read_text())
    for key in ("projection", "layers"):
        del content["model"]["embedding"][key]
    path.write_text(json.dumps(content))
    np.testing.assert_array_equal(load(tmp_path / "model").encode(texts), source.encode(texts))
