"""Contradictions between groups are refused with the change that mends them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from embedexp.config import UserError, compose
from embedexp.config.checks import RULES
from embedexp.config.problems import Rule

if TYPE_CHECKING:
    from pathlib import Path

# overrides, what the message says, overrides that the fix leads to
CONTRADICTIONS: list[tuple[list[str], str, list[str]]] = [
    (
        ["loss=cosent", "data.tasks=[retrieval]"],
        "cannot learn from retrieval",
        ["loss=cosent", "data.tasks=[sts]"],
    ),
    (["data.tasks=[retrieval,sts]"], "cannot learn from sts", ["data.tasks=[retrieval]"]),
    (
        ["loss.tasks=[retrieval,sts]"],
        "scored pair",
        ["loss=task_aware", "loss.tasks=[retrieval,sts]"],
    ),
    (
        ["loss=angle", "loss.tasks=[retrieval]"],
        "angle learns from scored pairs",
        ["loss=angle"],
    ),
    (
        ["loss=nemotron"],
        "holds only hard negatives",
        ["loss=nemotron", "loss.denominator=[own_hard_negatives,other_positives]"],
    ),
    (
        ["loss.directions=[document_to_query]", "loss.denominator=[own_hard_negatives]"],
        "hard negatives",
        ["loss.directions=[document_to_query]"],
    ),
    (
        ["loss.directions=[query_to_document,query_to_document]"],
        "query_to_document twice",
        ["loss.directions=[query_to_document]"],
    ),
    (
        ["loss.learnable_temperature=true", "loss.temperature=0.005"],
        "below loss.min_temperature=0.01",
        ["loss.learnable_temperature=true", "loss.temperature=0.005", "loss.min_temperature=0.005"],
    ),
    (
        ["loss.min_temperature=0.02"],
        "loss.min_temperature=0.02 has no effect",
        ["loss.min_temperature=0.02", "loss.learnable_temperature=true"],
    ),
    (
        ["loss.matryoshka.widths=[512,64]"],
        "more than the 384 dimensions",
        ["loss.matryoshka.widths=[64,384]"],
    ),
    (
        ["embedding.width=128", "loss.matryoshka.widths=[384]"],
        "more than the 128 dimensions",
        ["embedding.width=128", "loss.matryoshka.widths=[128]"],
    ),
    (["loss.matryoshka.widths=[384,384]"], "must be distinct", ["loss.matryoshka.widths=[384]"]),
    (
        ["loss.matryoshka.widths=[384,64]", "loss.matryoshka.weights=[1]"],
        "2 widths, but 1 weights",
        ["loss.matryoshka.widths=[384,64]", "loss.matryoshka.weights=[1,0.5]"],
    ),
    (
        ["loss.matryoshka.weights=[1]"],
        "no effect without loss.matryoshka.widths",
        ["loss.matryoshka.widths=[384]", "loss.matryoshka.weights=[1]"],
    ),
    (["loss=distillation"], "negatives=none gives none", ["loss=infonce"]),
    (["loss=distillation", "negatives=random"], "no teacher has scored", ["negatives=random"]),
    (["negatives=own"], "no hard negatives of its own", ["negatives=none"]),
    (
        ["loss.denominator=[own_hard_negatives]"],
        "holds only hard negatives",
        ["loss.denominator=[own_hard_negatives,other_positives]"],
    ),
    (
        ["loss=task_aware", "loss.denominators.clustering=[own_hard_negatives]"],
        "loss.denominators.clustering",
        ["loss=task_aware"],
    ),
    (["routing=moe", "routing.top_k=9"], "more than routing.num_experts=8", ["routing=moe"]),
    (
        ["routing=moe", "routing.placement=[1,6]"],
        "names layer 6",
        ["routing=moe", "routing.placement=[1]"],
    ),
    (["routing=moe", "routing.placement=[]"], "routes none", ["routing=dense"]),
    (
        ["routing=moe", "backbone.layers=1"],
        "routes none",
        ["routing=moe", "backbone.layers=1", "routing.placement=every"],
    ),
    (
        ["routing=mote", "~routing.experts.clustering"],
        "no expert for clustering",
        ["routing=mote", "~routing.experts.clustering", "+routing.experts.clustering=0"][:1],
    ),
    (["routing=mote", "routing.experts.clustering=5"], "skips expert 3", ["routing=mote"]),
    (["embedding.width=385"], "more than the 384 dimensions", ["embedding.width=384"]),
    (
        ["embedding.document_tokens=513"],
        "minilm has 512 positions",
        ["embedding.document_tokens=512"],
    ),
    (["backbone.layers=7"], "minilm has 6 layers", ["backbone.layers=null"]),
    (["backbone.quantization=nf4"], "stage=contrastive trains the weights", ["stage=zero_shot"]),
    (["stage=probe", "backbone.quantization=nf4"], "stage=probe trains", ["stage=probe"]),
    (
        ["stage=zero_shot", "backbone=tiny", "backbone.quantization=nf4"],
        "nf4 rounds pretrained weights, but backbone.weights=random",
        ["stage=zero_shot", "backbone.quantization=nf4"],
    ),
    (
        [
            "stage=zero_shot",
            "backbone.quantization=nf4",
            "backbone.lora={rank: 4, alpha: 8, dropout: 0, targets: [all]}",
        ],
        "QLoRA",
        ["stage=zero_shot", "backbone.quantization=nf4"],
    ),
    (["backbone.architecture.hidden_size=wide"], "is no size", []),
    (["backbone=tiny", "backbone.weights=pretrained"], "names nothing to load", ["backbone=tiny"]),
    (["backbone=tiny", "backbone.tokenizer=null"], "no tokenizer", ["backbone=tiny"]),
    (
        ["embedding.prompts.clustering='{task}: {text}'"],
        "embedding.prompts.clustering has the placeholder {task}",
        ["embedding.prompts.clustering='topic: {text}'"],
    ),
    (
        ["embedding.prompts.clustering='{text} {text}'"],
        "{text} 2 times",
        ["embedding.prompts.clustering='{text} ...'"],
    ),
    (
        ["backbone=tiny_llama", "embedding=cls", "mask_schedule=causal"],
        "sees only itself",
        ["backbone=tiny_llama", "embedding=last_token", "mask_schedule=causal"],
    ),
    (["embedding=moee"], "has no routers", ["embedding=moee", "routing=moe"]),
    (
        ["embedding=moee", "embedding.source=hidden_state", "embedding.router=logits"],
        "embedding.router=logits has no effect",
        ["embedding=moee", "embedding.source=hidden_state"],
    ),
    (
        ["embedding=moee", "routing=moe", "embedding.source=routing_weights", "embedding.alpha=2"],
        "embedding.alpha=2.0 has no effect",
        ["embedding=moee", "routing=moe", "embedding.source=sum", "embedding.alpha=2"],
    ),
    (["batching.size=1"], "nothing to be compared with", ["batching.size=2"]),
    (["loss=cosent", "batching.size=1"], "nothing to be compared", ["batching.size=2"]),
    (
        ["loss=task_aware", "batching=one_task_per_rank", "batching.sizes.sts=1"],
        "batching.sizes.sts=1 leaves",
        ["loss=task_aware", "batching=one_task_per_rank"],
    ),
    (
        ["batching.sampling.by=language"],
        "no effect without batching.sampling.temperature",
        ["batching.sampling.by=dataset"],
    ),
    (
        ["batching.sampling.by=language", "batching.sampling.temperature=0.3"],
        "says of no dataset which language",
        ["batching.sampling.temperature=0.3"],
    ),
    (
        ["loss.matryoshka.widths=[]"],
        "at least one",
        ["loss.matryoshka.widths=null"],
    ),
    (["backbone.source=./no/such/folder"], "does not exist", []),
    (["stage=merge"], "merge=none", []),
    (["stage=evaluate", "stage.model=./nowhere"], "does not exist", []),
    (["stage=evaluate", "stage.model=m", "evaluation=none"], "nothing to do", []),
    (
        ["stage=evaluate", "stage.model=m", "training.steps=5"],
        "training.steps=5 has no effect in stage=evaluate",
        ["stage=evaluate", "stage.model=m"],
    ),
    (["data=jsonl", "data.path=nowhere.jsonl"], "does not exist", []),
    (["data=debian", "data.lists=nowhere"], "is not a folder", []),
    (["negatives=mined_file", "negatives.path=nowhere"], "does not exist", []),
    (["data.max_examples=50"], "batching.size=64 is more than the 50", ["data.max_examples=64"]),
    (["+provenance.loss_temprature=ours"], "no key of this experiment", ["+provenance.loss=ours"]),
]


@pytest.mark.parametrize(
    ("overrides", "message", "mended"), CONTRADICTIONS, ids=[" ".join(c[0]) for c in CONTRADICTIONS]
)
def test_a_contradiction_is_refused_and_can_be_mended(
    overrides: list[str], message: str, mended: list[str]
) -> None:
    with pytest.raises(UserError) as caught:
        compose(overrides)
    assert message in caught.value.what
    assert caught.value.hint
    compose(mended)


def test_merging_without_its_stage_is_refused(tmp_path: Path) -> None:
    merge = ["merge=uniform", f"merge.inputs=[{tmp_path},{tmp_path}]"]
    with pytest.raises(UserError, match="merge=uniform has no effect in stage=contrastive"):
        compose(merge)
    assert compose([*merge, "stage=merge"]).merge.name == "uniform"
    with pytest.raises(UserError, match="not a folder"):
        compose(["merge=uniform", "merge.inputs=[nowhere,neither]", "stage=merge"])


def test_the_fix_for_a_loss_is_an_override_that_works() -> None:
    with pytest.raises(UserError) as caught:
        compose(["data=stdlib_code", "loss=cosent"])
    offered = re.findall(r"loss=\w+", caught.value.hint or "")
    assert offered
    for override in offered:
        assert "retrieval" in compose(["data=stdlib_code", override]).loss.tasks


@pytest.mark.parametrize(
    ("overrides", "warning"),
    [
        (["mask_schedule=linear"], "starts causal, but minilm was never trained so"),
        (["mask_schedule=causal"], "is causal throughout"),
        (["embedding.exclude_instruction=true"], "has no effect without prompts"),
        (["embedding=moee", "routing=moe", "embedding.standardize=batch"], "depends on the texts"),
        (["routing=mote", "data.tasks=[retrieval]"], "classification, clustering see no training"),
        (["training.steps=5", "optimizer.warmup_steps=7"], "before its 7 steps of warm-up"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_probably_not_meant_is_a_warning(overrides: list[str], warning: str) -> None:
    assert any(warning in text for text in compose(overrides).warnings)


@pytest.mark.parametrize(
    "overrides",
    [[], ["backbone=tiny_llama", "mask_schedule=linear"], ["routing=mote"], ["loss=cosent"]],
    ids=" ".join,
)
def test_what_is_fine_has_no_warning(overrides: list[str]) -> None:
    assert compose(overrides).warnings == ()


def test_columns_of_a_file_must_serve_the_task(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    row = {"query": "a", "positive": "b", "n": ["c"], "s": 0.5}
    file.write_text("".join(json.dumps(row | {"query": str(i)}) + "\n" for i in range(100)))
    data = ["data=jsonl", f"data.path={file}", "data.holdout=10"]
    with pytest.raises(UserError, match=r"data\.columns\.negatives names no field"):
        compose([*data, "negatives=own"])
    with pytest.raises(UserError, match=r"data\.columns\.score names no field"):
        compose([*data, "data.task=sts", "loss=cosent"])
    with pytest.raises(UserError, match=r"set data\.task=sts"):
        compose([*data, "loss=cosent"])
    assert compose([*data, "negatives=own", "data.columns.negatives=n"]).warnings == ()
    for column, text in (
        ("negatives=n", "no effect with negatives=none"),
        ("score=s", "no effect"),
    ):
        assert any(text in w for w in compose([*data, f"data.columns.{column}"]).warnings)


def test_the_number_of_further_problems_is_told() -> None:
    with pytest.raises(UserError, match=r"\(and 1 more\)"):
        compose(["embedding.width=1000", "backbone.layers=9"])


def test_rules_are_named_and_say_what_they_protect() -> None:
    assert len(RULES) > 20
    for each in RULES:
        assert isinstance(each, Rule)
        assert each.check.__doc__
    assert len({each.check.__name__ for each in RULES}) == len(RULES)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["loss.min_temperature=0.02"], "loss.learnable_temperature=true"),
        (["loss=distillation", "loss.infonce.temperature=0.1"], "loss.infonce.weight=1.0"),
    ],
)
def test_a_key_that_another_one_disables_is_refused_when_it_is_set(overrides, words, tmp_path):
    mined = tmp_path / "mined.jsonl"
    mined.write_text('{"query": "q", "negatives": ["n"]}')
    negatives = ["negatives=mined_file", f"negatives.path={mined}"]
    with pytest.raises(UserError, match="has no effect") as caught:
        compose([*negatives, *overrides])
    assert words in str(caught.value)
    assert compose([*negatives, *overrides, words]).loss  # the way out that was named


def test_the_teachers_temperature_counts_in_both_forms_of_distillation(tmp_path):
    mined = tmp_path / "mined.jsonl"
    mined.write_text('{"query": "q", "negatives": ["n"]}')
    words = ["negatives=mined_file", f"negatives.path={mined}", "loss=distillation"]
    words += ["loss.form=margin_mse", "loss.teacher_temperature=2.0"]
    assert compose(words).loss.teacher_temperature == 2.0
