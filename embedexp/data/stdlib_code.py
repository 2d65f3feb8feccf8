"""`data=stdlib_code`: docstring -> code of the running Python's standard library.

The sources are read and parsed, never imported or executed.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sysconfig
import textwrap
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

from .dataset import Corpus, Dataset
from .hashing import shuffled
from .holdout import hold_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embedexp.config.schema.data import StdlibCode

SHORTEST, LONGEST = 20, 300  # characters of a docstring's first paragraph
LONGEST_CODE = 1500  # characters
_SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


def load(option: StdlibCode, cache_dir: str | Path | None = None) -> Corpus:
    """One pair for each function whose docstring's first paragraph no other function has.

    Raises:
        UserError: this Python comes without the sources of its library.
    """
    del cache_dir  # small enough to be held in memory
    pairs: dict[str, str] = {}
    for file in _files():
        for docstring, code in _functions(file.read_bytes()):
            pairs.setdefault(docstring, code)
    order = shuffled(pairs, "stdlib_code", lambda docstring: docstring)
    whole = Dataset("stdlib_code", "retrieval", order, [pairs[docstring] for docstring in order])
    train, heldout = hold_out(whole, option.holdout, option.max_examples)
    return Corpus((train,), heldout, fingerprint(option))


def fingerprint(option: StdlibCode) -> str:
    """SHA-256 of the library's sources."""
    del option  # the limits are in the config already
    root = _library()
    digest = hashlib.sha256()
    for file in _files():
        digest.update(file.relative_to(root).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def describe(option: StdlibCode) -> list[tuple[str, str, int | None]]:
    """The dataset's name and task; its number of examples would need parsing."""
    del option
    return [("stdlib_code", "retrieval", None)]


def _library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _files() -> list[Path]:
    root = _library()
    files = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = [name for name in subfolders if name not in _SKIPPED]
        files += [Path(folder, name) for name in names if name.endswith(".py")]
    if not files:
        raise UserError(
            "this Python comes without the sources of its standard library",
            where=f"in {root}",
            hint="use another Python, or another data option",
        )
    return sorted(files)


def _functions(source: bytes) -> Iterator[tuple[str, str]]:
    """First paragraph of the docstring, and code without the docstring, of each function."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as invalid escapes: no concern of the reader
            tree = ast.parse(source)
        lines = source.decode("utf-8").splitlines()
    except (SyntaxError, ValueError):  # files that are meant to be broken, or in an old encoding
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and len(node.body) > 1:
            docstring = ast.get_docstring(node) or ""
            paragraph = re.split(r"\n\s*\n", docstring.strip())[0]
            first = " ".join(paragraph.split())[:LONGEST]
            if len(first) >= SHORTEST:
                text, end = node.body[0], node.body[0].end_lineno or node.lineno
                code = lines[node.lineno - 1 : text.lineno - 1] + lines[end : node.end_lineno]
                yield first, textwrap.dedent("\n".join(code))[:LONGEST_CODE]
