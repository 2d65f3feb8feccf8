"""Operations are counted as torch counts those of the same model, and as the field writes them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from embedexp import build_embedder
from embedexp.batching.layout import Layout
from embedexp.batching.token_batch import TokenBatch
from embedexp.config import compose
from embedexp.training.flops import ModelFlops, memory_gib, peak_flops


def batch(lengths, **more):
    return SimpleNamespace(layout=Layout.single(np.array(lengths, np.int64)), **more)


@pytest.mark.parametrize(
    "overrides",
    [["backbone=tiny"], ["backbone=tiny_llama"], ["backbone=tiny", "routing=moe"]],
    ids=["encoder", "decoder", "moe"],
)
def test_a_step_has_the_operations_that_torch_counts(overrides):
    config = compose([*overrides, "backbone.attention=eager"])
    embedder = build_embedder(config).eval()
    lengths = [48] * 8
    tokens = TokenBatch.pack([[7] * n for n in lengths], [0] * 8, [0] * 8)
    with FlopCounterMode(display=False) as counter:
        embedder(tokens).vectors.sum().backward()
    assert ModelFlops.of(config).of_batch(batch(lengths)) == pytest.approx(
        counter.get_total_flops(), rel=0.03
    )


def test_published_sizes_give_six_operations_a_parameter_and_token():
    config = compose(["backbone=llama_3_1_8b", "backbone.weights=random"])
    short = ModelFlops.of(config).of_batch(batch([1] * 1000)) / 1000
    outside = 7_504_924_672 - 525_336_576  # of the token table
    assert short == pytest.approx(6 * outside, rel=1e-3)


def test_long_texts_take_more_a_token_and_a_causal_mask_halves_what_they_add():
    both = ModelFlops.of(compose(["backbone=tiny_llama"]))
    causal = ModelFlops.of(compose(["backbone=tiny_llama", "mask_schedule=causal"]))
    assert both.of_batch(batch([64])) > both.of_batch(batch([32, 32]))
    linear = 6 * both.parameters * 64
    assert causal.of_batch(batch([64])) - linear == (both.of_batch(batch([64])) - linear) / 2
    # 12 times layers, width and length, for each token
    assert both.of_batch(batch([64])) - linear == 12 * 2 * 128 * 64 * 64


def test_predictions_read_the_vocabulary_and_adapters_leave_weights_alone():
    words = ModelFlops.of(compose(["backbone=tiny", "stage=mlm"]))
    more = words.of_batch(batch([9], predictions=5)) - words.of_batch(batch([9], predictions=0))
    assert more == 6 * 5 * 8192 * 128
    lora = "backbone.lora={rank: 2, alpha: 4, dropout: 0.0, targets: [all]}"
    plain, adapted = (ModelFlops.of(compose(["backbone=tiny", *x])) for x in ([], [lora]))
    assert adapted.of_batch(batch([9])) == pytest.approx(plain.of_batch(batch([9])) * 2 / 3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("NVIDIA H200", 989.4e12), ("NVIDIA A100-SXM4-80GB", 312e12), ("Homemade 1", None)],
)
def test_the_peak_of_known_gpus_is_without_sparsity(monkeypatch, name, expected):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: name)
    found = peak_flops(torch.device("cuda", 0), bf16=True)
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-3))
    assert peak_flops(torch.device("cpu"), bf16=False) is None


def test_memory_is_that_of_the_process_or_of_the_gpu(monkeypatch):
    assert 0.05 < memory_gib(torch.device("cpu")) < 64
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _: 3 * 2**30)
    assert memory_gib(torch.device("cuda", 0)) == 3.0
