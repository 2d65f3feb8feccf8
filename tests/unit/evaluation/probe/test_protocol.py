"""Head and training against transformers' own sequence classification, step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import (
    AutoConfig,
    BertForSequenceClassification,
    XLMRobertaForSequenceClassification,
    get_linear_schedule_with_warmup,
)

from embedexp.embedding import build_embedder
from embedexp.evaluation.probe import fit
from embedexp.evaluation.probe.examples import load
from embedexp.evaluation.probe.fit import Cell
from embedexp.evaluation.probe.model import pack

CELL = Cell("mnli", 8, 1e-3, 3)
ROBERTA = ["backbone.architecture.model_type=xlm-roberta", "backbone.architecture.pad_token_id=0"]


def started(config):
    embedder = build_embedder(config)
    stage = config.stage
    data = load("mnli", stage.tasks["mnli"], stage, embedder.text_tokenizer)
    base = {fit.INNER + k: v.clone() for k, v in embedder.state_dict().items()}
    return fit.start(embedder, base, stage, CELL, data.outputs), data, stage


def theirs(model, name):
    """The same weights in transformers' class."""
    configuration = AutoConfig.for_model(**model.embedder.model.config.to_dict())
    configuration.num_labels, configuration.classifier_dropout = 3, 0.0
    cls = {"bert": BertForSequenceClassification, "roberta": XLMRobertaForSequenceClassification}[
        name
    ]
    other = cls(configuration)
    getattr(other, name).load_state_dict(model.embedder.model.state_dict(), strict=False)
    dense = other.bert.pooler.dense if name == "bert" else other.classifier.dense
    output = other.classifier if name == "bert" else other.classifier.out_proj
    dense.load_state_dict(model.dense.state_dict())
    output.load_state_dict(model.output.state_dict())
    return other


def padded(examples, index):
    """The examples as transformers takes them."""
    longest = max(len(examples.tokens[i]) for i in index)
    ids, mask, kinds = (torch.zeros(len(index), longest, dtype=torch.int64) for _ in range(3))
    for row, i in enumerate(index):
        size = len(examples.tokens[i])
        ids[row, :size] = torch.tensor(examples.tokens[i])
        kinds[row, :size] = torch.tensor(examples.segments[i])
        mask[row, :size] = 1
    return ids, mask, kinds


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_scores_equal_those_of_transformers(composed, name):
    more = [] if name == "bert" else [*ROBERTA, "backbone.architecture.type_vocab_size=1"]
    model, data, _ = started(composed(*more))
    other = theirs(model, name).eval()
    index = list(range(12))
    ids, mask, kinds = padded(data.train, index)
    if name == "roberta":
        kinds = torch.zeros_like(kinds)
    expected = other(input_ids=ids, attention_mask=mask, token_type_ids=kinds).logits
    found = model.eval()(*pack(data.train, index, torch.device("cpu")))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    if name == "bert":  # segments matter, or the test would not see them missing
        zero = other(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(kinds))
        assert (zero.logits - expected).abs().max() > 1e-3


def test_training_equals_a_plain_loop_over_transformers(composed):
    model, data, stage = started(composed("stage.warmup_ratio=0"))
    other = theirs(model, "bert").train()
    decayed = [p for p in other.parameters() if p.ndim >= 2]
    plain = [p for p in other.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
        lr=1e-3, betas=(0.9, 0.999), eps=1e-8,
    )  # fmt: skip
    total = 12
    schedule = get_linear_schedule_with_warmup(optimizer, 0, total)
    seen = []
    for epoch in range(2):
        for index in fit._epoch(48, CELL, epoch):
            ids, mask, kinds = padded(data.train, index)
            labels = torch.tensor(data.train.labels[index])
            optimizer.zero_grad()
            other(
                input_ids=ids, attention_mask=mask, token_type_ids=kinds, labels=labels
            ).loss.backward()
            torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            seen += index
    assert sorted(seen) == sorted([*range(48), *range(48)])
    steps = []
    assert fit.train(model, data, stage.tasks["mnli"], stage, CELL, lambda: steps.append(1))
    assert len(steps) == total
    torch.testing.assert_close(model.output.weight, other.classifier.weight, atol=2e-4, rtol=1e-3)
    ids, mask, kinds = padded(data.dev["validation_matched"], range(21))
    with torch.inference_mode():
        logits = other.eval()(input_ids=ids, attention_mask=mask, token_type_ids=kinds).logits
    found = fit.predict(model, data.dev["validation_matched"], stage.tasks["mnli"], stage)
    assert np.array_equal(found, logits.argmax(-1).numpy())


def test_the_seed_alone_decides_the_head_and_the_order(composed):
    a, _, _ = started(composed())
    b, _, _ = started(composed("stage.learning_rates=[1e-4]"))
    assert torch.equal(a.dense.weight, b.dense.weight)
    one, two = Cell("mnli", 8, 1e-3, 1), Cell("mnli", 8, 5e-5, 1)
    assert fit._epoch(48, one, 0) == fit._epoch(48, two, 0) != fit._epoch(48, one, 1)
    assert fit._epoch(48, one, 0) != fit._epoch(48, CELL, 0)


def test_dropout_acts_while_training_and_repeats_with_the_seed(composed):
    ends = []
    for rate in (0.0, 0.3, 0.3):
        model, data, stage = started(composed(f"stage.head_dropout={rate}", "stage.epochs=1"))
        fit.train(model, data, stage.tasks["mnli"], stage, CELL, lambda: None)
        ends.append(model.output.weight.detach().clone())
    assert torch.equal(ends[1], ends[2])
    assert not torch.allclose(ends[0], ends[1], atol=1e-4)
