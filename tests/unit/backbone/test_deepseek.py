"""DeepSeekMoE from transformers' classes: the formula, and checkpoints in the published form."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from embedexp import backbone
from embedexp.backbone.families import deepseek
from embedexp.config.errors import UserError

from .architectures import ARCHITECTURES
from .test_families import build, config, pack, packed_forward

PUBLISHED = ARCHITECTURES["deepseek"]


def silu(x):
    return x / (1 + (-x).exp())


def test_a_block_is_its_formula():
    """Routed experts weighted by the raw softmax over all, plus the shared ones, in float64."""
    block = build("deepseek").layers[1].mlp
    rows = torch.randn(9, 32, generator=torch.Generator().manual_seed(0))
    weights = {name: value.detach().double() for name, value in block.named_parameters()}

    def gated(x, gate, up, down):
        return (silu(x @ gate.T) * (x @ up.T)) @ down.T

    expected = []
    for row in rows.double():
        scores = (row @ weights["gate.weight"].T).softmax(-1)
        output = gated(
            row, *(weights[f"shared_experts.{m}_proj.weight"] for m in ("gate", "up", "down"))
        )
        for expert in scores.argsort(descending=True)[:2].tolist():
            gate, up = weights["experts.gate_up_proj"][expert].chunk(2)
            output = output + scores[expert] * gated(
                row, gate, up, weights["experts.down_proj"][expert]
            )
        expected.append(output)
    torch.testing.assert_close(
        block(rows[None])[0].double(), torch.stack(expected), atol=1e-4, rtol=1e-4
    )


def test_the_first_layers_are_dense_and_the_others_are_not():
    kinds = [type(layer.mlp).__name__ for layer in build("deepseek").layers]
    assert kinds == ["DeepseekOcr2TextMLP", "DeepseekOcr2TextMoe", "DeepseekOcr2TextMoe"]
    every_other = {**PUBLISHED, "num_hidden_layers": 6, "moe_layer_freq": 2}
    kinds = deepseek.translate(every_other)["mlp_layer_types"]
    assert kinds == ["dense", "dense", "sparse", "dense", "sparse", "dense"]


def test_a_checkpoint_in_the_published_form_loads(tmp_path):
    """One matrix per expert, a head, and a configuration that names code of its own."""
    model = build("deepseek")
    state = {"lm_head.weight": torch.zeros(8192, 32)}
    for name, value in model.state_dict().items():
        if ".mlp.experts." in name:
            stem = name.rsplit(".", 1)[0]
            for expert, matrix in enumerate(value):
                if "down" in name:
                    state[f"model.{stem}.{expert}.down_proj.weight"] = matrix.clone()
                else:
                    gate, up = matrix.chunk(2)
                    state[f"model.{stem}.{expert}.gate_proj.weight"] = gate.clone()
                    state[f"model.{stem}.{expert}.up_proj.weight"] = up.clone()
        else:
            state[f"model.{name}"] = value.clone()
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    theirs = {
        **PUBLISHED,
        "architectures": ["DeepseekForCausalLM"],
        "auto_map": {"AutoModel": "evil.Model", "AutoConfig": "evil.Config"},
        "rope_scaling": None,
    }
    (tmp_path / "config.json").write_text(json.dumps(theirs))
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')\n")
    changes = {"backbone.source": str(tmp_path), "backbone.weights": "pretrained"}
    loaded, _ = backbone.load(config("deepseek", **changes).backbone)
    batch = pack([12, 5])
    expected = packed_forward(model.eval(), batch, "causal")
    assert torch.equal(packed_forward(loaded, batch, "causal"), expected)
    cut, _ = backbone.load(config("deepseek", **changes, **{"backbone.layers": 2}).backbone)
    assert len(cut.layers) == 2


@pytest.mark.parametrize(("key", "value"), [("norm_topk_prob", True), ("scoring_func", "sigmoid")])
def test_what_the_blocks_do_not_do_is_refused(key, value):
    with pytest.raises(UserError, match=f"architecture.{key}={value} is not supported"):
        deepseek.translate({**PUBLISHED, key: value})
