"""Commands that only look start without the heavy libraries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAVY = {"torch", "lightning", "transformers", "sentence_transformers", "mteb", "wandb"}


@pytest.mark.parametrize(
    ("arguments", "also_without"),
    [
        (["--help"], {"hydra", "omegaconf", "pydantic"}),
        (["status"], {"hydra", "omegaconf", "pydantic"}),
        (["--version"], {"hydra", "omegaconf", "pydantic", "rich", "yaml"}),
        (["--cfg", "job"], set()),
        (["show"], set()),
        (["routing=mot"], set()),
    ],
)
def test_command_imports_nothing_heavy(
    arguments: list[str], also_without: set[str], tmp_path: Path
) -> None:
    code = (
        "import sys; from embedexp.cli import main; main(sys.argv[1:]);"
        f"print('loaded:', *{HEAVY | also_without!r} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "loaded:"
    assert list(tmp_path.iterdir()) == []
