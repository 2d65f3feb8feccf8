"""Language models in training: transformers' loss, exact in chunks, the same on any rank."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM

import embedexp
from embedexp.backbone import heads
from embedexp.batching.blocks import Blocks
from embedexp.batching.plan import Rows
from embedexp.loss.causal_lm import NextToken
from embedexp.loss.mlm import Masking, Words
from embedexp.training.language_batches import Continued, Masked, Steps, block_batch
from embedexp.training.language_model import LanguageObjective
from embedexp.training.objective import Step

SMALL = [
    "backbone=tiny",
    "backbone.architecture.hidden_size=16",
    "backbone.architecture.num_attention_heads=2",
    "backbone.architecture.intermediate_size=24",
    "backbone.architecture.vocab_size=8192",
    "backbone.dropout=0",
    "tracking=none",
]
WORDS = Words(4, range(10, 8000))


def data(joined=False, size=24):
    """Two datasets of random documents in blocks."""
    rng = np.random.default_rng(0)
    found = []
    for count in (30, 12):
        lengths = rng.integers(1, 20, count)
        flat = rng.integers(10, 8000, lengths.sum()).astype(np.int32)
        found.append(Blocks(flat, np.r_[0, lengths.cumsum()], size, joined))
    return found


def rows(*blocks):
    """Rows of the first dataset, and one of the second."""
    return [Rows("text", 0, np.array(blocks)), Rows("text", 1, np.array([1]))]


def corruption(config):
    """What the stage of a config does to blocks."""
    if config.stage.name == "mlm":
        return Masked(Masking(config.loss), WORDS)
    return Continued(NextToken())


def objective(config, chunk_tokens=None):
    """A fresh objective, without dropout."""
    embedder = embedexp.build_embedder(config)
    torch.manual_seed(1)
    head = heads.load(config.backbone, embedder.model)
    for module in embedder.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    built = LanguageObjective(config.loss.name, embedder, head, config.routing, chunk_tokens)
    return built.train()


def take(built, batch):
    """One step's output and gradients."""
    output = built.step(batch, Step(3, 1.0, 0, 0, 1, built))
    return output, {n: p.grad.clone() for n, p in built.named_parameters() if p.grad is not None}


def assert_close(found, expected, tolerance=1e-6):
    """Gradients agree to `tolerance` of the largest."""
    assert found.keys() == expected.keys()
    largest = max(float(value.abs().max()) for value in expected.values())
    assert largest > 1e-4
    for name, value in expected.items():
        assert float((found[name] - value).abs().max()) <= tolerance * max(largest, 1), name


def test_value_and_gradient_are_those_of_transformers_masked_language_model():
    config = embedexp.compose([*SMALL, "stage=mlm"])
    ours = objective(config)
    architecture = {k: v for k, v in config.backbone.architecture.items() if k != "model_type"}
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    theirs = BertForMaskedLM(BertConfig(**architecture, **rates)).double().train()
    reference = theirs.get_submodule("cls").state_dict()
    own = {
        f"predictions.{k.removeprefix('transform.predictions.')}": v
        for k, v in ours.head.state_dict().items()
    }
    own["predictions.bias"] = own.pop("predictions.bias", ours.head.bias.detach())
    own["predictions.decoder.bias"] = own["predictions.bias"]
    own["predictions.decoder.weight"] = ours.embedder.model.get_input_embeddings().weight.detach()
    theirs.cls.load_state_dict({k: own[k] for k in reference})
    theirs.bert.load_state_dict(ours.embedder.model.state_dict())
    theirs.tie_weights()

    batch = block_batch(data(joined=True), rows(0, 3), corruption(config), key=("test",))
    output, gradients = take(ours, batch)
    labels = batch.labels.split(batch.tokens.lengths.tolist())
    texts = batch.tokens.input_ids.split(batch.tokens.lengths.tolist())
    sums = [
        torch.nn.functional.cross_entropy(
            theirs(input_ids=text[None]).logits[0], label, reduction="sum", ignore_index=-100
        )
        for text, label in zip(texts, labels, strict=True)
    ]
    expected = sum(sums) / sum(int((label >= 0).sum()) for label in labels)
    expected.backward()
    assert float(output.terms["mlm"]) == pytest.approx(float(expected.detach()), rel=1e-6)
    table = gradients["embedder.model.embeddings.word_embeddings.weight"]
    torch.testing.assert_close(
        table.double(), theirs.bert.embeddings.word_embeddings.weight.grad, atol=1e-6, rtol=1e-4
    )


STAGES = {
    "mlm": ["stage=mlm"],
    "causal": ["stage=causal_lm", "backbone=tiny_llama", "backbone.attention_dropout=0"],
    "experts": [
        "stage=mlm",
        "routing=moe",
        "routing.num_experts=4",
        "routing.z_loss_coefficient=0.1",
    ],
    "task experts": ["stage=mlm", "routing=mote"],
}


@pytest.mark.parametrize("name", STAGES)
def test_chunks_have_the_loss_and_gradient_of_the_whole(name):
    small = SMALL if name != "causal" else ["tracking=none"]
    config = embedexp.compose([*small, *STAGES[name]])
    batch = block_batch(data(), rows(0, 3, 5), corruption(config), key=("test",))
    output, expected = take(objective(config), batch)
    chunked, found = take(objective(config, chunk_tokens=20), batch)
    for term, value in output.terms.items():
        torch.testing.assert_close(chunked.terms[term], value, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(chunked.loss, output.loss, rtol=1e-6, atol=1e-6)
    assert_close(found, expected)
    if name == "experts":
        assert output.terms["balance"] > 0


def test_documents_apart_do_not_see_each_other_and_joined_ones_do():
    config = embedexp.compose([*SMALL, "stage=mlm"])
    built = objective(config).eval()
    for joined in (False, True):
        blocks = data(joined)[0]
        changed = Blocks(blocks.flat.copy(), blocks.offsets, blocks.size, joined)
        changed.flat[0] = 9
        batches = [
            block_batch([each], [Rows("text", 0, np.array([0]))], Continued(NextToken()), key=())
            for each in (blocks, changed)
        ]
        with torch.no_grad():
            first, second = (built.embedder.hidden(batch.tokens)[0] for batch in batches)
        inside = int(blocks.offsets[1])
        same = torch.allclose(first[inside:], second[inside:], atol=1e-6)
        assert same is not joined


@pytest.mark.parametrize("stage", ["mlm", "causal_lm"])
@pytest.mark.parametrize("world", [2, 3, 9])
def test_ranks_share_out_what_one_process_reads(stage, world):
    config = embedexp.compose([*SMALL[-1:], f"stage={stage}"])
    alone = block_batch(data(), rows(0, 3, 5), corruption(config), key=("test",))
    parts = [
        block_batch(data(), rows(0, 3, 5), corruption(config), key=("test",), rank=r, world=world)
        for r in range(world)
    ]
    for name in ("input_ids", "task_ids"):
        together = torch.cat([getattr(part.tokens, name) for part in parts])
        assert together.equal(getattr(alone.tokens, name))
    assert torch.cat([part.labels for part in parts]).equal(alone.labels)
    assert {part.predictions for part in parts} == {alone.predictions}
    assert {len(part) for part in parts} == {4}
    assert alone.predictions == int((alone.labels >= 0).sum()) > 0


def test_what_a_step_hides_depends_on_seed_and_step_alone():
    config = embedexp.compose([*SMALL[-1:], "stage=mlm"])

    def labels(step, seed=0):
        steps = Steps(lambda _: rows(0, 3), data(), corruption(config), seed)
        return steps(step).labels

    assert labels(5).equal(labels(5))
    assert not labels(5).equal(labels(6))
    assert not labels(5).equal(labels(5, seed=1))
