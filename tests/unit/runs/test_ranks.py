"""What a rank leaves when it fails is what others read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from embedexp.runs import FailureKind
from embedexp.runs.ranks import forget_rank_failures, rank_failures, write_rank_failure


def test_what_is_written_is_read_and_a_cause_comes_before_its_effects(tmp_path):
    write_rank_failure(tmp_path, 2, "Connection closed by peer", FailureKind.ERROR)
    write_rank_failure(tmp_path, 1, "no room", FailureKind.OUT_OF_MEMORY, "Traceback ...")
    first, second = rank_failures(tmp_path)
    assert (first.rank, first.message, first.kind) == (1, "no room", FailureKind.OUT_OF_MEMORY)
    assert first.traceback == "Traceback ..."
    assert (second.rank, second.peer_gone, second.traceback) == (2, True, None)


def test_failures_of_an_earlier_attempt_are_left_out_and_forgotten(tmp_path):
    write_rank_failure(tmp_path, 1, "no room", FailureKind.OUT_OF_MEMORY)
    later = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
    assert rank_failures(tmp_path, since=later) == []
    forget_rank_failures(tmp_path)
    assert rank_failures(tmp_path) == []
