"""What asks for places that cannot do the work is refused with what would."""

from __future__ import annotations

import pytest

from embedexp.config import UserError, compose

# overrides, what the message says, what the fix says, overrides that the fix leads to
REFUSED = [
    (
        ["stage=mine", "compute=ddp"],
        "stage=mine runs in one process, and compute=ddp asks for 2",
        "compute=gpu",
        ["stage=mine", "compute=gpu"],
    ),
    (
        ["stage=mine", "compute=ddp", "compute.accelerator=cpu"],
        "asks for 2",
        "compute=cpu",
        ["stage=mine", "compute=cpu"],
    ),
    (
        ["stage=mine", "compute.compile=true"],
        "compute.compile=true has no effect in stage=mine",
        "compute.compile=false",
        ["stage=mine"],
    ),
    (
        ["stage=filter", "compute.activation_checkpointing=true"],
        "compute.activation_checkpointing=true has no effect in stage=filter",
        "compute.activation_checkpointing=false",
        ["stage=filter"],
    ),
    (
        ["compute=ddp", "compute.devices=8", "batching.size=6"],
        "batching.size is 6, fewer examples a step than the 8 processes of compute=ddp (1 x 8)",
        "set batching.size=8 or more, or set compute.devices=6",
        ["compute=ddp", "compute.devices=6", "batching.size=6"],
    ),
    (
        ["compute=slurm_fsdp", "batching.size=9"],
        "fewer examples a step than the 16 processes",
        "or set compute.devices=4",
        ["compute=slurm_fsdp", "batching.size=9", "compute.devices=4"],
    ),
    (
        ["compute=ddp", "compute.nodes=4", "batching.size=3"],
        "than the 8 processes",
        "or set compute.nodes=1 compute.devices=2",
        ["compute=ddp", "compute.nodes=1", "compute.devices=2", "batching.size=3"],
    ),
    (
        ["compute=fsdp", "compute.sharding=hybrid"],
        "compute.sharding=hybrid has no effect on one node",
        "compute.sharding=full",
        ["compute=fsdp", "compute.sharding=hybrid", "compute.nodes=2"],
    ),
]


@pytest.mark.parametrize(("overrides", "message", "fix", "mended"), REFUSED)
def test_what_cannot_work_is_refused_with_what_can(overrides, message, fix, mended):
    with pytest.raises(UserError) as caught:
        compose(overrides)
    assert message in caught.value.what
    assert fix in caught.value.hint
    compose(mended)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["training.precision=bf16_mixed"], "bf16_mixed is several times slower"),
        (["backbone.dtype=bfloat16"], "bfloat16 is several times slower"),
        (["compute=fsdp", "compute.devices=1"], "compute=fsdp shards nothing with one process"),
        (["compute=ddp", "compute.devices=1"], "compute=ddp shares nothing with one process"),
    ],
)
def test_what_works_to_no_purpose_is_a_warning(overrides, message):
    assert sum(message in text for text in compose(overrides).warnings) == 1


@pytest.mark.parametrize(
    "overrides",
    [
        ["compute=gpu", "training.precision=bf16_mixed"],
        ["compute=slurm_fsdp", "batching.size=17"],  # shares need not be equal
        ["stage=mine", "compute=slurm_gpu"],
        ["compute=ddp", "batching.size=2"],
    ],
)
def test_what_works_is_let_through_in_silence(overrides):
    assert compose(overrides).warnings == ()
