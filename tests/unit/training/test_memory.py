"""What a process may use is what the machine and its container leave."""

from __future__ import annotations

from embedexp.config import compose
from embedexp.training import memory

GIB = 2**30


def written(folder, **files):
    for name, text in files.items():
        (folder / name).write_text(text, encoding="ascii")
    return folder


def test_the_tighter_of_machine_and_container_counts(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 99 kB\nMemAvailable: {8 * 2**20} kB\n", encoding="ascii")
    group = written(tmp_path, most=str(4 * GIB), used=str(3 * GIB))
    pair = ((str(group / "most"), str(group / "used")),)
    assert memory.available(str(meminfo), ()) == 8 * GIB
    assert memory.available(str(meminfo), pair) == 1 * GIB
    written(group, **{"memory.stat": f"inactive_file {GIB}\nactive_file {GIB // 2}\nanon 7\n"})
    assert memory.available(str(meminfo), pair) == 2.5 * GIB  # files give way
    written(group, most="max")
    assert memory.available(str(meminfo), pair) == 8 * GIB


def test_a_machine_that_says_nothing_has_no_bound(tmp_path):
    assert memory.available(str(tmp_path / "none"), ()) == float("inf")


def test_processes_of_a_machine_share_its_memory(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 12.0 * GIB)
    alone = memory.limit(compose(["backbone=tiny"]))
    assert (alone.size, alone.of) == (12 * GIB, "this machine")
    options = ["backbone=tiny", "compute=ddp", "compute.accelerator=cpu", "compute.devices=3"]
    shared = memory.limit(compose(options))
    assert (shared.size, shared.of) == (4 * GIB, "each of 3 processes")
