"""The shipped architectures have the published numbers of parameters, with and without a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedexp import backbone
from embedexp.backbone import loading
from embedexp.backbone.counts import parameter_counts as by_arithmetic
from embedexp.config import compose
from embedexp.config.errors import UserError
from embedexp.config.locations import conf_dir
from embedexp.config.show import show
from embedexp.embedding import build_embedder
from embedexp.routing import parameter_counts as by_model

from .options import model_config

SHIPPED = sorted(path.stem for path in (conf_dir() / "backbone").glob("*.yaml"))
HUB = [name for name in SHIPPED if name not in ("minilm", "tiny", "tiny_llama", "conan_v2")]

EXACT = {  # without head and pooler
    "bert_base": 109_482_240 - 768 * 769,
    "bert_large": 335_141_888 - 1024 * 1025,
    "e5_large_unsupervised": 335_141_888 - 1024 * 1025,
    "xlm_roberta_base": 278_043_648 - 768 * 769,
    "xlm_roberta_large": 559_890_432 - 1024 * 1025,
    "mnomic_bert": 278_043_648 - 768 * 769 - 514 * 768,  # and without the table of positions
    "llama_3_2_1b": 1_235_814_400,
    "llama_3_1_8b": 7_504_924_672,
}
ROUNDED = {  # as published, in millions: total and active, with the language-model head
    "nomic_bert_2048": (137, 137),
    "conan_v2": (1503, 1503),
    "olmoe_1b_7b": (6_900, 1_300),
    "qwen1_5_moe_a2_7b": (14_300, 2_700),
    "deepseek_moe_16b": (16_400, 2_800),
}
UNTIED = ("olmoe_1b_7b", "qwen1_5_moe_a2_7b", "deepseek_moe_16b")


@pytest.mark.parametrize("name", SHIPPED)
def test_arithmetic_agrees_with_the_model_on_the_meta_device(name):
    config = model_config(name)
    assert by_arithmetic(config) == by_model(build_embedder(config, device="meta"))


@pytest.mark.parametrize("name", EXACT)
def test_exact_published_counts(name):
    counts = by_arithmetic(model_config(name))
    assert counts["total"] == counts["active"] == EXACT[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_published_counts(name):
    config = model_config(name)
    counts, architecture = by_arithmetic(config), config.backbone.architecture
    head = architecture["vocab_size"] * architecture["hidden_size"] if name in UNTIED else 0
    for key, published in zip(("total", "active"), ROUNDED[name], strict=True):
        found = (counts[key] + head) / 1e6
        # Conan-v2's 1,503M is 0.25% more than the stated sizes give; the rest rounds as printed.
        assert found == pytest.approx(published, rel=0.003 if name == "conan_v2" else 0.015)


@pytest.mark.parametrize("name", SHIPPED)
def test_show_prints_the_counts(name):
    config = compose([f"backbone={name}"])
    counts = by_arithmetic(config)
    text = show(config)
    for key in ("total", "active", "embedding"):
        assert f"{counts[key]:,}" in text


@pytest.mark.parametrize("name", HUB)
def test_missing_weights_give_one_clear_line(name, monkeypatch):
    import huggingface_hub

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError) as error:
        backbone.load(model_config(name).backbone)
    assert str(error.value).count("\n") == 1
    source = model_config(name).backbone.source
    assert f"no model hub within reach, and {source} is not in its cache" in str(error.value)
    assert "backbone.source=/path/to/the/model" in str(error.value)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_deep_model_can_be_cut_and_built_with_random_weights(name):
    """As `scale=demo` does; two narrow layers, to be quick."""
    architecture = dict(model_config(name).backbone.architecture)
    narrow = {"hidden_size": 8 * architecture["num_attention_heads"], "intermediate_size": 32,
              "vocab_size": 8192, "moe_intermediate_size": 16,
              "shared_expert_intermediate_size": 16, "head_dim": 8}  # fmt: skip
    architecture |= {key: value for key, value in narrow.items() if key in architecture}
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        if architecture.get(key, 0) >= 8192:
            architecture[key] = 3
    changes = {"backbone.architecture": architecture, "backbone.layers": 2}
    changes |= {"backbone.weights": "random", "backbone.source": None}
    model = loading.build(model_config(name, changes=changes).backbone)
    assert by_model(model) == by_arithmetic(model_config(name, changes=changes))


def test_conan_says_what_its_paper_does_not():
    text = (Path(conf_dir()) / "backbone" / "conan_v2.yaml").read_text()
    for key in ("rms_norm_eps", "hidden_act", "rope_theta", "tokenizer"):
        line = next(line for line in text.splitlines() if line.strip().startswith(f"{key}:"))
        assert "ours" in line
