"""The house keeps its shape: imports point one way, and starting is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "embedexp"

ROOMS = [
    "config",
    "data",
    "generation",
    "batching",
    "negatives",
    "backbone",
    "routing",
    "mask_schedule",
    "embedding",
    "loss",
    "training",
    "merge",
    "evaluation",
    "runs",
    "stage",
    "launch",
    "sweeps",
]
"""In the order in which data flows through them; each may import those before it."""

HEAVY = {"torch", "lightning", "transformers", "sentence_transformers", "mteb", "wandb"}


def imported_rooms(path: Path) -> set[str]:
    """Rooms that a module imports, inside functions too; type-only imports count as well."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = path.relative_to(PACKAGE.parent).parts[: -node.level]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "embedexp" and len(parts) > 1 and parts[1] in ROOMS:
                found.add(parts[1])
    return found


def test_every_folder_is_a_known_room():
    folders = {p.name for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert folders - {"cli", "conf"} <= set(ROOMS)


# `config` asks the data for its fingerprint and sizes, and the backbone for its parameter count,
# where the answer needs no model and no torch; everything else points one way.
EXCEPTIONS = {("config", "data"), ("config", "backbone")}


@pytest.mark.parametrize("room", [r for r in ROOMS if (PACKAGE / r).is_dir()])
def test_imports_point_one_way(room):
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    wrong = {
        (str(path.relative_to(PACKAGE)), other)
        for path in (PACKAGE / room).rglob("*.py")
        for other in imported_rooms(path)
        if other not in allowed and (room, other) not in EXCEPTIONS
    }
    assert not wrong


@pytest.mark.parametrize(
    "module",
    ["embedexp", "embedexp.__main__", "embedexp.config", "embedexp.runs", "embedexp.launch"],
)
def test_starting_imports_nothing_heavy(module):
    code = f"import sys, {module}; print(*{HEAVY!r} & set(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert found.stdout.split() == []


def test_files_stay_small():
    sizes = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in PACKAGE.rglob("*.py")}
    assert sorted(sizes.values())[len(sizes) // 2] <= 200
    assert {str(p): n for p, n in sizes.items() if n > 500} == {}


def test_the_project_does_not_name_the_machine_it_was_made_on():
    words = ["/wo" + "rk/", "../sha" + "red", "find-" + "links"]
    kinds = ("*.md", "*.py", "*.toml", "*.yaml", "Makefile", "*.txt", ".ci/run")
    texts = [path for kind in kinds for path in ROOT.rglob(kind)]
    own = [p for p in texts if not {".venv", "runs", ".git"} & set(p.relative_to(ROOT).parts)]
    assert len(own) > 50
    named = [(str(p), w) for p in own for w in words if w in p.read_text(encoding="utf-8")]
    assert named == []
