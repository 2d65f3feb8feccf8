"""Packed batches keep sequences apart."""

from __future__ import annotations

import torch

from embedexp.batching.token_batch import TokenBatch

BATCH = TokenBatch.pack([[1, 2, 3], [4], [5, 6]], [0, 1, 2], [0, 1, 2])


def test_positions_and_sequences_follow_the_boundaries():
    assert BATCH.lengths.tolist() == [3, 1, 2]
    assert BATCH.position_ids.tolist() == [0, 1, 2, 0, 0, 1]
    assert BATCH.sequence_ids.tolist() == [0, 0, 0, 1, 2, 2]


def test_selecting_reorders_whole_sequences():
    chosen = BATCH.select(torch.tensor([2, 0]))
    assert chosen.input_ids.tolist() == [5, 6, 1, 2, 3]
    assert chosen.cu_seqlens.tolist() == [0, 2, 5]
    assert chosen.task_ids.tolist() == [2, 0]
    assert chosen.roles.tolist() == [2, 0]


def test_the_padded_view_is_right_padded():
    ids, mask = BATCH.padded(pad_token_id=9)
    assert ids.tolist() == [[1, 2, 3], [4, 9, 9], [5, 6, 9]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]


def test_positions_and_sequences_do_not_wait_for_a_device():
    # On the meta device there is no value to wait for.
    batch = BATCH.to("meta")
    assert batch.position_ids.shape == batch.sequence_ids.shape == (6,)
