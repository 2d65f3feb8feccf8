"""Steps after the first find the memory of the one before."""

import platform
import subprocess
import sys

import pytest

from embedexp.training import pages

COUNT = """
import resource, sys, torch
from embedexp.training.pages import keep_pages
kept = keep_pages() if sys.argv[1] == "kept" else None
def step():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(16):  # malloc comes to rest after some
        torch.ones(16 * 2**20)  # 64 MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
step()
print(kept, step())
"""


def faults(how):
    done = subprocess.run(
        [sys.executable, "-c", COUNT, how], capture_output=True, text=True, check=True
    )
    kept, count = done.stdout.split()
    return kept, int(count)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_pages_of_large_tensors_are_used_again():
    kept, few = faults("kept")
    assert kept == "True"
    _, many = faults("given back")
    assert few < 1000 < many


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(pages.ctypes, "CDLL", lambda _: object())
    assert not pages.keep_pages()
