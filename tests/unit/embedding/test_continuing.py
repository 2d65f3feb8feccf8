from __future__ import annotations

import numpy as np
import pytest
import torch

import embedexp
from embedexp.config.errors import UserError
from embedexp.config.schema.routing import MoE, MoTE
from embedexp.config.trained import mismatch
from embedexp.embedding import build_embedder

from ..backbone.options import model_config
from .conftest import PROMPTS, build

KINDS = {
    "moe": ("tiny", "moe", {"routing__biases": "shared_output", "routing__renormalize": "none"}),
    "function preserving": ("tiny", "moe", {"routing__renormalize": "function_preserving"}),
    "loss free": ("tiny", "loss_free", {}),
    "expert choice": ("tiny", "expert_choice", {}),
    "mote": ("tiny", "mote", {}),
    "moe of a decoder": ("tiny_llama", "moe", {}),
    "rotary": ("tiny", "moe", {"backbone__positions": {"base": 10000.0, "max_length": 512}}),
    "another mask": ("tiny_llama", "dense", {"mask_schedule": "bidirectional"}),
}


def trained(kind):
    """As a stage leaves it: experts, routers and their buffers moved apart."""
    backbone, routing, changes = KINDS[kind]
    mask = changes.get("mask_schedule")
    changes = {k: v for k, v in changes.items() if k != "mask_schedule"}
    embedder = build(backbone, routing, mask, embedding__prompts=PROMPTS, **changes)
    torch.manual_seed(5)
    with torch.no_grad():
        for name, value in embedder.state_dict().items():
            if value.is_floating_point() and "first_router" not in name:
                value.add_(0.05 * torch.randn_like(value))
    return embedder


def next_stage(embedder, folder, **changes):
    """The config of a stage that starts from a folder, with another seed."""
    content = embedder.config.model_dump()
    content["backbone"] |= {"source": str(folder), "weights": "pretrained"}
    content["seed"] = 7
    for key, value in changes.items():
        group, name = key.split("__")
        content[group][name] = value
    return type(embedder.config).model_validate(content)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stage_starts_exactly_where_its_source_ended(kind, tmp_path, texts):
    source = trained(kind)
    source.save(tmp_path / "run" / "model")
    for folder in (tmp_path / "run", tmp_path / "run" / "model"):
        again = build_embedder(next_stage(source, folder))
        for task in PROMPTS:
            np.testing.assert_array_equal(
                again.encode(texts, task=task), source.encode(texts, task=task)
            )
    ours, theirs = again.model.state_dict(), source.model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_stage_may_change_what_no_vector_depends_on(tmp_path, texts):
    source = trained("moe")
    source.save(tmp_path / "model")
    config = next_stage(source, tmp_path / "model", routing__balance_coefficient=1.0)
    again = build_embedder(config)
    assert again.config.routing.balance_coefficient == 1.0
    np.testing.assert_array_equal(again.encode(texts), source.encode(texts))


def test_the_head_of_an_earlier_stage_is_found_beside_experts(tmp_path):
    from embedexp.backbone import heads

    source = trained("moe")
    source.save(tmp_path / "model")
    option = next_stage(source, tmp_path / "model").backbone
    new = heads.load(option, source.model)  # the folder has none yet: a new one
    with torch.no_grad():
        new.bias.fill_(0.25)
    heads.save(new, tmp_path / "model" / heads.FILE)
    again = heads.load(option, build_embedder(next_stage(source, tmp_path / "model")).model)
    assert torch.equal(again.bias, torch.full_like(again.bias, 0.25))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"routing__top_k": 1}, "routing.top_k=2, this experiment has 1"),
        ({"routing__num_experts": 4}, "routing.num_experts=8, this experiment has 4"),
        ({"routing__renormalize": "topk"}, "routing.renormalize=none, this experiment has topk"),
        ({"routing__placement": "every"}, r"in layers \[1\], not in \[0,1\]"),
    ],
)
def test_experts_are_not_continued_as_others(changes, message, tmp_path):
    source = trained("moe")
    source.save(tmp_path / "model")
    with pytest.raises(UserError, match=message):
        build_embedder(next_stage(source, tmp_path / "model", **changes))


def test_experts_are_not_dropped_in_silence(tmp_path):
    trained("moe").save(tmp_path / "model")
    dense = model_config(
        changes={
            "backbone.source": str(tmp_path / "model"),
            "backbone.weights": "pretrained",
        }
    )
    with pytest.raises(UserError, match="which routing=dense would drop"):
        build_embedder(dense)


def test_the_command_line_refuses_before_anything_is_loaded(tmp_path):
    trained("moe").save(tmp_path / "model")
    overrides = [
        "backbone=tiny",
        f"backbone.source={tmp_path / 'model'}",
        "backbone.weights=pretrained",
    ]
    with pytest.raises(UserError, match="set routing=moe"):
        embedexp.compose(overrides)


def test_another_architecture_is_named(tmp_path):
    trained("moe").save(tmp_path / "model")
    config = next_stage(trained("moe"), tmp_path / "model")
    config.backbone.architecture["intermediate_size"] = 256
    with pytest.raises(UserError, match="intermediate_size is 256, the source says 512"):
        build_embedder(config)


def test_task_experts_may_gain_tasks_but_not_move():
    def option(**experts):
        return MoTE(name="mote", placement="every", experts=experts)

    has = option(search_query=0, search_document=1)
    assert mismatch(has, option(search_query=0, search_document=1, clustering=1), 2) is None
    moved = mismatch(has, option(search_query=1, search_document=0), 2)
    assert moved is not None
    assert "expert of search_query is 0" in moved[0]
    more = mismatch(has, option(search_query=0, search_document=1, clustering=2), 2)
    assert more is not None
    assert "give clustering one of the 2 experts" in more[1]


def test_layers_are_compared_as_they_are_placed():
    def option(placement):
        return MoE.model_validate(
            model_config(routing="moe").routing.model_dump() | {"placement": placement}
        )

    assert mismatch(option("every_other"), option([1, 3]), 4) is None
    assert mismatch(option("every_other"), option([1]), 4) is not None
