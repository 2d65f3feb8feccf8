"""A request that cannot be met fails before any work, with the number that could."""

from __future__ import annotations

import logging
import re
import shutil
from types import SimpleNamespace

import pytest
import torch

import embedexp
from embedexp.config import UserError, compose
from embedexp.config.memory import estimate, longest_share
from embedexp.runs import RunDirectory
from embedexp.stage import preflight as rules
from embedexp.training import memory
from embedexp.training.memory import Limit

TINY = ["backbone=tiny", "tracking=none", "optimizer.warmup_steps=0"]
GIB = 2**30


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """A process that no launcher started."""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def applied(config, hint):
    """The config with the overrides that a hint names."""
    found = dict(re.findall(r"(training\.chunk_tokens|compute\.\w+)=(\w+)", hint))
    assert found, hint
    training, compute = {}, {}
    for key, value in found.items():
        group = training if key.startswith("training") else compute
        group[key.partition(".")[2]] = {"true": True}.get(value) or int(value)
    return config.model_copy(
        update={
            "training": config.training.model_copy(update=training),
            "compute": config.compute.model_copy(update=compute),
        }
    )


def refused(config, limit, share=None):
    with pytest.raises(UserError) as caught:
        rules.require_memory(config, Limit(limit, "this machine"), share)
    error = caught.value
    lines = str(error).splitlines()
    assert len(lines) == 3, error
    return error


def test_several_machines_need_a_launcher():
    config = compose(["compute=slurm_fsdp"])
    with pytest.raises(UserError, match=r"compute\.nodes=2, but this command runs on one") as error:
        rules.require_ranks(config)
    assert "hydra/launcher=slurm" in error.value.hint


def test_processes_are_as_many_as_compute_asks_for(monkeypatch):
    config = compose([*TINY, "compute=ddp", "compute.devices=4"])
    rules.require_ranks(config)  # started by this command
    for name, value in {"RANK": 1, "LOCAL_RANK": 1, "WORLD_SIZE": 4, "LOCAL_WORLD_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "1")
    rules.require_ranks(config)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")  # on two machines
    with pytest.raises(UserError, match=r"\(1 x 4\), and 4 were started \(2 x 2\)"):
        rules.require_ranks(config)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(UserError, match=r"asks for 4 processes .* and 3 were started"):
        rules.require_ranks(config)


@pytest.mark.parametrize(
    ("compute", "found", "message", "hint"),
    [
        (["compute=gpu"], 0, "compute=gpu, but torch sees no GPU here", "use compute=cpu"),
        (["compute=ddp"], 0, "asks for 2 GPUs a machine", "use compute.accelerator=cpu"),
        (["compute=ddp", "compute.devices=4"], 3, "torch sees 3 here", "set compute.devices=3"),
    ],
)
def test_gpus_are_counted(monkeypatch, compute, found, message, hint):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: found)
    with pytest.raises(UserError) as caught:
        rules.require_devices(compose([*TINY, *compute]))
    assert message in caught.value.what
    assert hint in caught.value.hint


def test_enough_gpus_or_none_needed_pass(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    rules.require_devices(compose([*TINY, "compute=ddp"]))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rules.require_devices(compose([*TINY, "compute=ddp", "compute.accelerator=cpu"]))


@pytest.mark.parametrize("fraction", [0.5, 0.7])
def test_the_proposed_chunk_fits_and_is_the_largest_that_does(fraction):
    config = compose([*TINY, "stage=mlm", "batching.size=256"])
    limit = estimate(config).total * fraction
    error = refused(config, limit)
    assert "training step needs" in error.what
    assert "activations of 32,768 tokens" in error.what
    mended = applied(config, error.hint)
    assert estimate(mended).total <= limit
    larger = mended.training.chunk_tokens + rules.STEP
    assert estimate(mended, chunk_tokens=larger).total > limit
    rules.require_memory(mended, Limit(limit, "this machine"))


def test_where_one_text_is_too_much_activations_are_computed_again():
    config = compose(
        [
            *TINY,
            "stage=mlm",
            "batching.size=8",
            "backbone.architecture.num_hidden_layers=24",
            "stage.block_tokens=512",
            "loss.probability=0.01",
        ]
    )
    least = estimate(config, chunk_tokens=512)
    recomputed = estimate(config, chunk_tokens=512, checkpointing=True)
    assert recomputed.total < 0.8 * least.total
    limit = (least.total + recomputed.total) / 2
    error = refused(config, limit)
    assert "compute.activation_checkpointing=true" in error.hint
    assert estimate(applied(config, error.hint)).total <= limit


def test_weights_that_no_device_holds_are_spread_over_several():
    config = compose(["backbone=llama_3_1_8b", "backbone.weights=random", "compute=gpu"])
    error = refused(config, 40 * GIB)
    devices = int(re.search(r"compute=fsdp over (\d+) devices", error.hint)[1])
    tokens = max(config.embedding.query_tokens, config.embedding.document_tokens)
    for count, fits in ((devices, True), (devices // 2, False)):
        needed = estimate(config, chunk_tokens=tokens, checkpointing=True, shards=count)
        assert (needed.total <= 40 * GIB) is fits
    sharded = compose(["backbone=llama_3_1_8b", "backbone.weights=random", "compute=fsdp"])
    assert "use compute.devices=" in refused(sharded, 10 * GIB).hint


def test_texts_of_unknown_length_only_warn_and_known_ones_fail(caplog):
    config = compose([*TINY, "batching.size=512"])
    limit = estimate(config).total / 2
    with caplog.at_level(logging.WARNING):
        rules.require_memory(config, Limit(limit, "this machine"))
    (record,) = caplog.records
    assert "if all texts are as long as they may be" in record.getMessage()
    assert "set training.chunk_tokens=" in record.getMessage()
    caplog.clear()
    refused(config, limit, share=estimate(config).tokens)
    rules.require_memory(config, Limit(limit, "this machine"), share=4096)
    assert not caplog.records


def test_a_close_fit_warns(caplog):
    config = compose([*TINY, "stage=mlm"])
    for limit, warnings in ((1.05, 1), (0.95, 1), (1.2, 0)):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            rules.require_memory(config, Limit(estimate(config).total * limit, "each GPU"))
        assert len(caplog.records) == warnings


def test_checkpoints_must_fit_the_disk(monkeypatch, tmp_path):
    config = compose(["training.keep_checkpoints=9", f"paths.runs={tmp_path}"])
    state = estimate(config, share=1, shards=1)
    one = state.weights + state.optimizer

    def free(size):
        usage = SimpleNamespace(total=size, used=0, free=size)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    free(int(12 * one))
    rules.require_disk(config, tmp_path / "run")
    free(int(5 * one + state.weights))
    with pytest.raises(UserError, match=r"10 checkpoints of .* GiB are free") as error:
        rules.require_disk(config, tmp_path / "run")
    kept = int(re.search(r"keep_checkpoints=(\d+)", error.value.hint)[1])
    assert kept == 4
    fewer = config.training.model_copy(update={"keep_checkpoints": kept})
    rules.require_disk(config.model_copy(update={"training": fewer}), tmp_path / "run")
    # What a run has written already needs no room any more.
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    with (tmp_path / "run" / "checkpoints" / "step-00000001.ckpt").open("wb") as file:
        file.truncate(int(6 * one))
    rules.require_disk(config, tmp_path / "run")


def test_a_run_that_fits_passes_all_of_it(tmp_path):
    directory = SimpleNamespace(path=tmp_path / "run", model=tmp_path / "run" / "model")
    rules.preflight(compose([*TINY, f"paths.runs={tmp_path}"]), directory)
    rules.preflight(compose(["stage=mine", f"paths.runs={tmp_path}"]), directory)


def test_the_whole_check_refuses_what_this_machine_cannot_hold(monkeypatch, tmp_path):
    directory = SimpleNamespace(path=tmp_path / "run", model=tmp_path / "run" / "model")
    config = compose([*TINY, "stage=mlm", f"paths.runs={tmp_path}"])
    monkeypatch.setattr(memory, "available", lambda: 0.1 * GIB)
    with pytest.raises(UserError, match=r"this machine has 0\.1 GiB"):
        rules.preflight(config, directory)
    monkeypatch.setenv("LOCAL_RANK", "1")  # the first process of a machine has asked already
    rules.preflight(config, directory)


def test_once_texts_are_tokenised_a_step_that_does_not_fit_fails_before_the_first(
    monkeypatch, tmp_path
):
    paths = [f"paths.runs={tmp_path}", f"paths.cache={tmp_path}/cache"]
    config = compose([*TINY, *paths, "batching.size=256", "evaluation=none"])
    little = estimate(config, share=512).total  # enough for one text, not for 256 pairs
    monkeypatch.setattr(memory, "limit", lambda config: Limit(little, "this machine"))
    with pytest.raises(UserError, match="a training step needs") as caught:
        embedexp.run(config, quiet=True)
    tokens = re.search(r"activations of ([\d,]+) tokens", caught.value.what)[1]
    assert 512 < int(tokens.replace(",", "")) < longest_share(config)  # those of real batches
    assert not (RunDirectory.of(config).path / "metrics.jsonl").exists()
    assert "training.chunk_tokens=" in caught.value.hint
