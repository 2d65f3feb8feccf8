"""Blocks cover the documents' tokens once, and keep documents apart."""

from __future__ import annotations

import numpy as np
import pytest

from embedexp.batching.blocks import Blocks


def documents(lengths, start=4):
    """Documents of numbered tokens that begin at `start` in a store."""
    offsets = start + np.r_[0, np.cumsum(lengths)]
    return np.arange(offsets[-1] + 3, dtype=np.int32), offsets


LENGTHS = [3, 10, 1, 0, 6, 25, 2]


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("size", [2, 5, 8, 47, 100])
def test_every_token_is_in_one_block_and_all_but_the_last_are_full(size, joined):
    flat, offsets = documents(LENGTHS)
    blocks = Blocks(flat, offsets, size, joined)
    read = [blocks[i] for i in range(len(blocks))]
    np.testing.assert_array_equal(np.concatenate([t for t, _ in read]), np.arange(4, 4 + 47))
    assert {len(tokens) for tokens, _ in read[:-1]} <= {size}
    assert all(lengths.sum() == len(tokens) and lengths.min() > 0 for tokens, lengths in read)


def test_no_sequence_holds_tokens_of_two_documents():
    flat, offsets = documents(LENGTHS)
    blocks = Blocks(flat, offsets, 8, joined=False)
    owner = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
    pieces = []
    for i in range(len(blocks)):
        tokens, lengths = blocks[i]
        pieces += np.split(tokens, lengths.cumsum()[:-1])
    assert all(len(set(owner[piece - 4])) == 1 for piece in pieces)
    # 8 documents' starts and block ends, some of which fall together.
    assert len(pieces) == 11


def test_joined_blocks_are_one_sequence():
    flat, offsets = documents(LENGTHS)
    blocks = Blocks(flat, offsets, 8, joined=True)
    assert [len(blocks[i][1]) for i in range(len(blocks))] == [1] * 6
