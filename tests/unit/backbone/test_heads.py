"""Language-model heads: what transformers computes, from the same files."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

from embedexp.backbone import heads, loading
from embedexp.backbone.layout import PackedLayout
from embedexp.config.errors import UserError
from embedexp.config.schema.backbone import LoRA, Rotary

from .architectures import ARCHITECTURES, CAUSAL
from .options import model_config

LENGTHS = (5, 9)
# transformers has no language model of these blocks.
KNOWN = [name for name in ARCHITECTURES if name != "deepseek"]


def whole_model(architecture, folder):
    """transformers' own language model with random weights, saved to a folder."""
    torch.manual_seed(0)
    name = architecture["model_type"]
    automatic = AutoModelForCausalLM if name in CAUSAL else AutoModelForMaskedLM
    model = automatic.from_config(AutoConfig.for_model(**architecture)).eval()
    for parameter in model.parameters():
        parameter.data += 0.02 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model


def option_of(architecture, folder, **changes):
    """A backbone option that reads a folder."""
    update = {"source": str(folder), "weights": "pretrained", "architecture": architecture}
    return model_config().backbone.model_copy(update={"dropout": 0.0, **update, **changes})


def hidden_states(model, texts, mask):
    """Hidden states of a packed batch, `[t, d]`."""
    positions = torch.cat([torch.arange(len(text)) for text in texts])
    return model(
        input_ids=torch.cat(texts)[None],
        position_ids=positions[None],
        packed_layout=PackedLayout.build([len(text) for text in texts], mask),
    ).last_hidden_state[0]


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("name", KNOWN)
def test_logits_are_those_of_transformers_language_model(name, tied, tmp_path):
    architecture = {**ARCHITECTURES[name], "tie_word_embeddings": tied}
    theirs = whole_model(architecture, tmp_path)
    option = option_of(architecture, tmp_path)
    model = loading.pretrained(option).eval()
    head = heads.load(option, model)
    texts = [torch.randint(5, 8000, (length,)) for length in LENGTHS]
    mask = "causal" if name in CAUSAL else "bidirectional"
    with torch.no_grad():
        ours = head.logits(hidden_states(model, texts, mask), model)
        expected = torch.cat([theirs(input_ids=text[None]).logits[0] for text in texts])
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["bert", "llama", "modernbert"])
def test_a_tied_head_has_no_matrix_of_its_own_and_learns_the_table(name, tmp_path):
    architecture = {**ARCHITECTURES[name], "tie_word_embeddings": True}
    whole_model(architecture, tmp_path)
    option = option_of(architecture, tmp_path)
    model = loading.pretrained(option)
    head = heads.load(option, model)
    assert head.weight is None
    head.logits(torch.randn(3, 32), model).square().sum().backward()
    assert model.get_input_embeddings().weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", ["bert", "xlm-roberta"])
def test_a_model_with_converted_positions_keeps_its_pretrained_head(name, tmp_path):
    theirs = whole_model(ARCHITECTURES[name], tmp_path)
    rotary = Rotary(base=10000.0, max_length=64)
    option = option_of(ARCHITECTURES[name], tmp_path, positions=rotary)
    model = loading.pretrained(option)
    hidden = torch.randn(4, 32)
    last = theirs.cls if name == "bert" else theirs.lm_head
    torch.testing.assert_close(
        heads.load(option, model).logits(hidden, model), last(hidden), atol=1e-5, rtol=1e-5
    )


def test_a_checkpoint_without_a_head_gets_a_new_one(tmp_path, caplog):
    option = option_of(ARCHITECTURES["bert"], tmp_path)
    model = loading.build(option)
    model.save_pretrained(tmp_path)
    with caplog.at_level("INFO"):
        torch.manual_seed(1)
        first = heads.load(option, model)
        torch.manual_seed(1)
        second = heads.load(option, model)
    assert "no language-model head" in caplog.text
    dense = first.transform.predictions.transform.dense.weight
    assert 0.01 < float(dense.detach().std()) < 0.03  # BERT's initializer_range
    for name, value in first.state_dict().items():
        torch.testing.assert_close(value, second.state_dict()[name])


@pytest.mark.parametrize("name", ["bert", "modernbert", "llama", "deepseek"])
def test_a_kept_head_is_found_beside_the_model(name, tmp_path):
    option = option_of(ARCHITECTURES[name], tmp_path)
    model = loading.build(option)
    head = heads.new(option, model)
    for parameter in head.parameters():
        parameter.data += torch.randn_like(parameter)
    heads.save(head, tmp_path / heads.FILE)
    (tmp_path / "config.json").write_text("{}")
    hidden = torch.randn(3, 32)
    found = heads.load(option, model)
    torch.testing.assert_close(found.logits(hidden, model), head.logits(hidden, model))


def test_another_models_head_is_refused(tmp_path):
    option = option_of(ARCHITECTURES["bert"], tmp_path)
    model = loading.build(option)
    other = heads.new(
        option_of(ARCHITECTURES["llama"], tmp_path),
        loading.build(option_of(ARCHITECTURES["llama"], tmp_path)),
    )
    heads.save(other, tmp_path / heads.FILE)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="head does not fit"):
        heads.load(option, model)


def test_a_found_head_stays_as_it_is_where_only_adapters_are_trained(tmp_path):
    architecture = {**ARCHITECTURES["llama"], "tie_word_embeddings": False}
    whole_model(architecture, tmp_path)
    adapters = LoRA(rank=2, alpha=4.0, dropout=0.0, targets=["all"])
    option = option_of(architecture, tmp_path)
    model = loading.pretrained(option)
    assert heads.load(option, model).weight.requires_grad
    frozen = heads.load(option.model_copy(update={"lora": adapters}), model)
    assert not frozen.weight.requires_grad
