"""What a probe reads, and a hash of it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedexp.data.labelled import Address

    from .schema.probe import ProbeStage, ProbeTask


def addresses(name: str, task: ProbeTask) -> list[Address]:
    """Every split that a task reads: train, dev, and the test of each language."""
    from embedexp.data.labelled import Address

    where = f"stage.tasks.{name}"
    found = [Address(task.dataset, task.subset, split, where) for split in (task.train, *task.dev)]
    return found + list(tests(name, task).values())


def tests(name: str, task: ProbeTask) -> dict[str, Address]:
    """The test split of each language."""
    from embedexp.data.labelled import Address

    if (test := task.test) is None:
        return {}
    return {
        language: Address(
            test.dataset or task.dataset,
            test.subset.replace("{language}", language),
            test.split.replace("{language}", language),
            f"stage.tasks.{name}.test",
        )
        for language in test.languages
    }


def in_use(stage: ProbeStage) -> dict[str, ProbeTask]:
    """The tasks that are trained."""
    return {n: task for n, task in stage.tasks.items() if stage.only is None or n in stage.only}


def fingerprint(stage: ProbeStage) -> str:
    """SHA-256 of everything that the tasks in use read.

    Raises:
        UserError: a local folder or a file in it is missing.
    """
    from embedexp.data.labelled import fingerprint as of

    digest = hashlib.sha256()
    for name, task in in_use(stage).items():
        for address in addresses(name, task):
            digest.update(f"{name} {address.subset} {address.split} {of(address)}\n".encode())
    return digest.hexdigest()
