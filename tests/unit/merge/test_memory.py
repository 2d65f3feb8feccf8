"""Memory does not grow with the models."""

from __future__ import annotations

import subprocess
import sys

import torch

from embedexp.merge.tensors import Tensors, Writer

MERGE = """
import sys
from pathlib import Path
from embedexp.merge.combining import combine, same_names, uniform
from embedexp.merge.tensors import Tensors

def peak():
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) // 1024

folder = Path(sys.argv[1])
models = [Tensors.of([folder / name]) for name in ("small0", "small1")]
combine(same_names(models), uniform, folder / "warm")
before = peak()
models = [Tensors.of([folder / f"large{i}"]) for i in range(3)]
combine(same_names(models), uniform, folder / "merged")
print(peak() - before)
"""


def write(path, value, tensors, rows):
    """A file of `tensors` tensors of `rows` x 1024 numbers."""
    writer = Writer(path, {f"t{i}": ("F32", (rows, 1024)) for i in range(tensors)})
    for _ in range(tensors * rows // 1024):
        writer.write(torch.full((1024, 1024), value))
    writer.close()


def test_the_peak_is_a_fraction_of_one_tensor(tmp_path):
    """Three models of 256 MiB in two tensors, merged within less than one tensor."""
    for i in range(2):
        write(tmp_path / f"small{i}", float(i), 1, 1024)
    for i in range(3):
        write(tmp_path / f"large{i}", float(i), 2, 32 * 1024)
    command = [sys.executable, "-c", MERGE, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(found.stdout) < 128
    merged = Tensors.of([tmp_path / "merged"])
    assert torch.equal(merged.read("t1", (9000, 9001)), torch.ones(1, 1024))
    assert sum(merged.size(name) for name in merged) == 2**26


def test_what_is_written_is_read_back_by_the_library(tmp_path):
    from safetensors.torch import load_file

    state = {
        "scalar": torch.tensor(3.5),
        "half": torch.arange(6).reshape(2, 3).bfloat16(),
        "numbers": torch.arange(4),
        "flags": torch.tensor([True, False]),
        "empty": torch.zeros(0, 4),
    }
    kinds = {"scalar": "F32", "half": "BF16", "numbers": "I64", "flags": "BOOL", "empty": "F32"}
    layout = {name: (kinds[name], tuple(value.shape)) for name, value in state.items()}
    writer = Writer(tmp_path / "file", layout)
    for name in writer.names:
        writer.write(state[name])
    writer.close()
    found = load_file(tmp_path / "file")
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], value) for name, value in state.items())
    assert all(found[name].dtype == value.dtype for name, value in state.items())
