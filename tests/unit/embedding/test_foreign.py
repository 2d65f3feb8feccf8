from __future__ import annotations

import json

import numpy as np
import pytest

from embedexp.config.errors import UserError
from embedexp.embedding import load
from embedexp.embedding.foreign import locate

from .conftest import PROMPTS, build


@pytest.fixture
def folder(tmp_path):
    """A sentence-transformers folder without anything of ours."""
    build("tiny", embedding__prompts=PROMPTS, embedding__query_tokens=32).save(tmp_path / "model")
    (tmp_path / "model" / "embedexp.json").unlink()
    return tmp_path / "model"


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_sentence_transformers_folder_keeps_what_it_says(folder, texts):
    embedder = load(folder)
    option = embedder.config.embedding
    assert option.name == "mean"
    assert option.normalize
    assert option.prompts.model_dump() == PROMPTS
    assert option.document_tokens == 128
    expected = build("tiny", embedding__prompts=PROMPTS).encode(texts, task="clustering")
    np.testing.assert_array_equal(embedder.encode(texts, task="clustering"), expected)


def test_newer_and_older_names_of_poolings(folder):
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"embedding_dimension": 128, "pooling_mode": "lasttoken"}))
    assert load(folder).config.embedding.name == "last_token"
    pooling.write_text(json.dumps({"pooling_mode_lasttoken": True}))
    assert load(folder).config.embedding.name == "last_token"
    pooling.write_text(json.dumps({"pooling_mode_cls_token": True}))
    assert load(folder).config.embedding.name == "cls"
    pooling.write_text(json.dumps({"embedding_dimension": 128, "pooling_mode": "weightedmean"}))
    assert load(folder).config.embedding.name == "weighted_mean"
    for content in (
        {"pooling_mode": "max"},
        {"pooling_mode_max_tokens": True},
        {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
    ):
        pooling.write_text(json.dumps(content))
        with pytest.raises(UserError, match="is not supported"):
            load(folder)


def test_prompts_named_query_and_document_are_understood(folder):
    change(folder / "config_sentence_transformers.json", prompts={"query": "q: ", "passage": "p: "})
    prompts = load(folder).config.embedding.prompts
    assert (prompts.search_query, prompts.search_document) == ("q: ", "p: ")


def test_a_module_that_we_do_not_have_is_named(folder):
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 9, "name": "9", "path": "9_CNN", "type": "any.where.CNN"})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match="module CNN"):
        load(folder)


def test_modules_in_another_order_compute_something_else(folder):
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 9, "name": "9", "path": "9_Dense", "type": "any.where.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match="in this order are not supported"):
        load(folder)


@pytest.mark.parametrize(
    ("family", "pooling", "mask"),
    [("tiny", "mean", "bidirectional"), ("tiny_llama", "last_token", "causal")],
)
def test_a_plain_transformers_folder_has_its_familys_defaults(tmp_path, family, pooling, mask):
    made = build(family)
    made.model.save_pretrained(tmp_path)
    made.tokenizer.save_pretrained(tmp_path)
    config = load(tmp_path).config
    assert config.embedding.name == pooling
    assert config.mask_schedule.name == mask
    assert config.routing.name == "dense"
    assert config.backbone.dropout == made.config.backbone.dropout


def test_what_is_no_model_is_explained(tmp_path):
    with pytest.raises(UserError, match="no model in"):
        load(tmp_path)
    with pytest.raises(UserError, match="no model in"):
        load(tmp_path / "nowhere")
    (tmp_path / "status.json").write_text("{}")
    with pytest.raises(UserError, match="has no model yet"):
        load(tmp_path)


def test_an_unsupported_family_is_named(folder):
    change(folder / "config.json", model_type="t5")
    with pytest.raises(UserError, match="t5 is not supported"):
        load(folder)


def test_a_pretrained_backbone_option_is_a_model_by_its_name():
    folder = locate("minilm")
    assert (folder / "model.safetensors").is_file()
    with pytest.raises(UserError, match="backbone=tiny has no published weights"):
        locate("tiny")
    with pytest.raises(UserError, match=r"minilmm is not in its cache\ndid you mean minilm\?"):
        locate("minilmm")
    with pytest.raises(UserError, match="name a run directory, a model folder, or a model on"):
        locate("owner/of-nothing")
