"""Process groups that the tests share."""

from __future__ import annotations

import pytest

from .ranks import Ranks


@pytest.fixture(scope="session")
def ranks():
    """The process group with so many ranks; one of each size."""
    groups = {world: Ranks(world) for world in (2, 4)}
    yield groups.__getitem__
    for group in groups.values():
        group.stop()
