from __future__ import annotations

import json

import pytest
import torch

from embedexp import backbone
from embedexp.config.errors import UserError

from .options import FAMILIES, model_config


def option(name="tiny", **changes):
    return model_config(name, changes={f"backbone.{k}": v for k, v in changes.items()}).backbone


@pytest.fixture
def folder(tmp_path):
    model, _ = backbone.load(option(layers=2))
    model.save_pretrained(tmp_path)
    return tmp_path


def pretrained(folder, **changes):
    return option(source=str(folder), weights="pretrained", **changes)


def equal(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_weights_come_back_as_they_were_saved(folder):
    first, second = (backbone.load(pretrained(folder))[0] for _ in range(2))
    assert equal(first, second)
    random, _ = backbone.load(option())
    assert not equal(first, random)


def test_a_source_that_was_cut_before_is_not_taken_for_another(folder):
    deep = {"architecture.num_hidden_layers": 6}
    cut, _ = backbone.load(pretrained(folder, layers=2, **deep))
    assert equal(cut, backbone.load(pretrained(folder))[0])
    with pytest.raises(UserError, match="num_hidden_layers is 6, the source says 2"):
        backbone.load(pretrained(folder, **deep))


def test_the_first_layers_are_kept(folder):
    whole, _ = backbone.load(pretrained(folder))
    cut, _ = backbone.load(pretrained(folder, layers=1))
    assert len(cut.encoder.layer) == 1
    kept = cut.state_dict()
    assert all(torch.equal(kept[name], whole.state_dict()[name]) for name in kept)


def test_more_layers_than_there_are_is_an_error():
    with pytest.raises(UserError, match="2 layers, not 3"):
        backbone.load(option(layers=3))


def test_dropout_goes_by_the_familys_name():
    bert, _ = backbone.load(option(dropout=0.3, attention_dropout=0.2))
    assert bert.encoder.layer[0].output.dropout.p == 0.3
    assert bert.encoder.layer[0].attention.self.dropout.p == 0.2
    llama, _ = backbone.load(option("tiny_llama", attention_dropout=0.2))
    assert llama.layers[0].self_attn.attention_dropout == 0.2


def test_dropout_that_the_family_lacks_is_an_error():
    with pytest.raises(UserError, match=r"llama has no dropout(.|\n)*backbone.dropout=0"):
        backbone.load(option("tiny_llama", dropout=0.1))


def test_dtype_is_that_of_the_weights(folder):
    model, _ = backbone.load(pretrained(folder, dtype="bfloat16"))
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}


def test_an_architecture_that_contradicts_the_source_is_named(folder):
    with pytest.raises(UserError) as error:
        backbone.load(pretrained(folder, architecture={"model_type": "bert", "hidden_size": 64}))
    assert "architecture.hidden_size is 64, the source says 128" in str(error.value)
    assert len(str(error.value).splitlines()) <= 3


def test_a_checkpoint_without_some_weights_is_refused(folder):
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"lacks 1 .*encoder.layer.1.output.dense.weight"):
        backbone.load(pretrained(folder))


@pytest.mark.parametrize("name", FAMILIES)
def test_meta_needs_no_tokenizer_and_no_source(name):
    model, tokenizer = backbone.load(
        option(name, source="nobody/nothing", weights="pretrained", tokenizer=None), "meta"
    )
    assert tokenizer is None
    assert {p.device.type for p in model.parameters()} == {"meta"}


def test_an_unsupported_family_suggests_the_nearest():
    with pytest.raises(UserError, match="did you mean llama"):
        backbone.load(option(architecture={"model_type": "lama"}))


def test_a_tokenizer_larger_than_the_model_is_refused():
    architecture = {**option().architecture, "vocab_size": 100}
    with pytest.raises(UserError, match="8192 tokens, the model only 100"):
        backbone.load(option(architecture=architecture))


def test_a_causal_lm_checkpoint_loads_without_its_head(tmp_path):
    from transformers import AutoConfig, AutoModelForCausalLM

    architecture = option("tiny_llama").architecture
    whole = AutoModelForCausalLM.from_config(AutoConfig.for_model(**architecture))
    whole.save_pretrained(tmp_path)
    model, _ = backbone.load(
        option("tiny_llama", source=str(tmp_path), weights="pretrained", layers=1)
    )
    assert torch.equal(model.layers[0].mlp.up_proj.weight, whole.model.layers[0].mlp.up_proj.weight)
    assert not any("lm_head" in name for name, _ in model.named_parameters())


def test_pickled_weights_are_not_loaded(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="safetensors"):
        backbone.load(pretrained(folder))


def test_code_in_the_source_is_not_executed(folder):
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "evil.Model", "AutoConfig": "evil.Config"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('executed')\n")
    model, _ = backbone.load(pretrained(folder))
    assert type(model).__module__.startswith("transformers.")
