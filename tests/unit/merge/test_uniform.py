"""The equal average, and what every merge keeps, refuses and records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import embedexp
from embedexp.config.errors import UserError
from embedexp.config.schema.merge import Ema, Uniform
from embedexp.merge import merge

from .conftest import build, rewrite, weights

TEXTS = ["a small furry animal", "money in a bank", "x"]


def uniform(inputs, output):
    return merge(Uniform(name="uniform", inputs=list(inputs)), output)


@pytest.mark.parametrize("count", [2, 3, 6])
def test_copies_merge_to_themselves_bit_for_bit(dense, tmp_path, count):
    uniform([dense[0]] * count, tmp_path / "m")
    found, wanted = weights(tmp_path / "m"), weights(dense[0])
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_equals_a_float64_loop(dense, tmp_path):
    uniform(dense[:3], tmp_path / "m")
    states = [weights(path) for path in dense[:3]]
    for name, value in weights(tmp_path / "m").items():
        wanted = sum(state[name].double() for state in states) / 3
        torch.testing.assert_close(value.double(), wanted, rtol=0, atol=1e-7)


def test_the_result_is_a_plain_model_with_the_inputs_pooling_and_prompts(dense, tmp_path):
    uniform(dense[:2], tmp_path / "m")
    for name in ("config.json", "modules.json", "config_sentence_transformers.json"):
        ours, theirs = (
            json.loads((Path(f) / name).read_text()) for f in (tmp_path / "m", dense[0])
        )
        assert ours == theirs, name
    embedder = embedexp.load(tmp_path / "m")
    assert embedder.config.embedding.prompts.search_query == "query: "
    from sentence_transformers import SentenceTransformer

    plain = SentenceTransformer(str(tmp_path / "m"), device="cpu")
    np.testing.assert_allclose(
        plain.encode(TEXTS, prompt_name="search_query"),
        embedder.encode(TEXTS, task="search_query"),
        atol=1e-6,
    )


def test_the_record_names_every_input_by_its_content(dense, tmp_path):
    record = uniform(dense[:2], tmp_path / "m").to_dict()
    assert [each["path"] for each in record["inputs"]] == dense[:2]
    assert [each["weight"] for each in record["inputs"]] == [0.5, 0.5]
    contents = [each["content"] for each in record["inputs"]]
    assert len(set(contents)) == 2
    again = uniform([dense[1], dense[0]], tmp_path / "n").to_dict()
    assert [each["content"] for each in again["inputs"]] == contents[::-1]


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        (["backbone.architecture.intermediate_size=64"], "architecture.intermediate_size is 48"),
        (["backbone.architecture.layer_norm_eps=1e-6"], "architecture.layer_norm_eps is 1e-12"),
        (["embedding=cls"], "embedding.name is 'mean'"),
        (["embedding.prompts.search_query='q: '"], "embedding.prompts.search_query is 'query: '"),
        (["embedding.normalize=false"], "embedding.normalize is True"),
        (["routing=mote"], "routing.name is 'dense'"),
        (["mask_schedule=causal"], "mask_schedule is 'bidirectional'"),
        (["backbone.dtype=bfloat16"], "backbone.dtype is 'float32'"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_the_first_difference_is_named(dense, tmp_path, options, difference):
    other = build(tmp_path / "other", *options)
    with pytest.raises(UserError, match="can't merge") as caught:
        uniform([dense[0], other], tmp_path / "m")
    assert difference in caught.value.what
    assert other in str(caught.value.where)
    assert not (tmp_path / "m").exists()


def test_training_only_options_may_differ(tmp_path):
    routing = ["routing=moe", "routing.num_experts=2"]
    a = build(tmp_path / "a", *routing)
    b = build(tmp_path / "b", *routing, "routing.balance_coefficient=0.5", "backbone.dropout=0.3")
    uniform([a, b], tmp_path / "m")
    assert embedexp.load(tmp_path / "m").config.routing.name == "moe"


def test_another_tokenizer_is_refused(dense, tmp_path):
    other = Path(build(tmp_path / "other"))
    text = (other / "tokenizer.json").read_text()
    (other / "tokenizer.json").write_text(text.replace('"lowercase":true', '"lowercase":false'))
    if (other / "tokenizer.json").read_text() == text:
        (other / "tokenizer.json").write_text(
            text.replace('"lowercase": true', '"lowercase": false')
        )
    assert (other / "tokenizer.json").read_text() != text
    with pytest.raises(UserError, match="the tokenizer's normalizer differs"):
        uniform([dense[0], str(other)], tmp_path / "m")


def test_a_missing_tensor_is_named(dense, tmp_path):
    other = build(tmp_path / "other")
    rewrite(other, lambda state: state.pop("encoder.layer.1.output.dense.bias"))
    with pytest.raises(UserError, match=r"only the first has .*layer\.1\.output\.dense\.bias"):
        uniform([dense[0], other], tmp_path / "m")


def test_models_made_elsewhere_merge_under_their_own_names(dense, tmp_path):
    """A checkpoint of a masked language model has a prefix, and tensors that are not ours."""
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (foreign / name).write_text((Path(dense[0]) / name).read_text())
    state = {f"bert.{name}": value for name, value in weights(dense[1]).items()}
    save_file(state | {"cls.predictions.bias": torch.zeros(8)}, foreign / "model.safetensors")
    uniform([str(foreign)] * 2, tmp_path / "m")
    found, wanted = weights(tmp_path / "m"), weights(dense[1])
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_half_precision_is_accumulated_in_float32(tmp_path):
    paths = [
        build(tmp_path / f"m{i}", "backbone.dtype=bfloat16", seed=i, moved=0.02) for i in range(3)
    ]
    uniform(paths, tmp_path / "m")
    states = [weights(path) for path in paths]
    for name, value in weights(tmp_path / "m").items():
        assert value.dtype == torch.bfloat16
        wanted = sum(state[name].double() for state in states) / 3
        assert torch.equal(value, wanted.float().bfloat16()) or torch.allclose(
            value.double(), wanted, rtol=2**-8, atol=1e-7
        )


def test_an_average_over_training_has_no_models_to_merge(tmp_path):
    with pytest.raises(UserError, match="merge=ema has no models to merge"):
        merge(Ema(name="ema", decay=0.9, every=1, start=0), tmp_path / "m")
