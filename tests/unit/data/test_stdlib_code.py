"""The standard library becomes pairs without being executed."""

import pytest

from embedexp import data
from embedexp.config.errors import UserError
from embedexp.data import stdlib_code

from . import options

SOURCE = '''
raise SystemExit("executed")

class Dog:
    @property
    def bark(self):
        """Make a noise that visitors will remember.

        A second paragraph.
        """
        # loud
        return "\\d"  # an invalid escape is no concern of ours

def short():
    """Too short."""
    return 1

def nothing():
    """A docstring and nothing else, of good length."""

class Cat:
    async def copy():
        """Make a noise that   visitors
        will remember."""
        return 2
'''


@pytest.fixture
def library(tmp_path, monkeypatch):
    monkeypatch.setattr(stdlib_code, "_library", lambda: tmp_path)
    return tmp_path


def test_docstring_finds_its_code_without_running_it(library):
    (library / "dogs.py").write_text(SOURCE.replace("\\\\d", "\\d"))
    (library / "broken.py").write_text("def (:\n")
    (library / "latin.py").write_bytes(b"# -*- coding: latin-1 -*-\nname = '\xe9'\n")
    (library / "test").mkdir()
    (library / "test" / "more.py").write_text(SOURCE.replace("noise", "sound"))
    (train,) = data.load(options.stdlib_code()).train
    assert train.queries == ["Make a noise that visitors will remember."]
    (code,) = train.positives
    assert code.splitlines()[0] == "def bark(self):"
    assert "# loud" in code
    assert "visitors" not in code


def test_fingerprint_follows_the_sources(library):
    (library / "dogs.py").write_text(SOURCE)
    before = data.fingerprint(options.stdlib_code())
    (library / "notes.txt").write_text("no source")
    assert data.fingerprint(options.stdlib_code()) == before
    (library / "dogs.py").write_text(SOURCE + "\n")
    assert data.fingerprint(options.stdlib_code()) != before


def test_python_without_sources_is_explained(library):
    with pytest.raises(UserError, match="without the sources"):
        data.load(options.stdlib_code())


def test_this_python_has_plenty(monkeypatch):
    files = stdlib_code._files()
    assert not any("site-packages" in file.parts for file in files)
    monkeypatch.setattr(stdlib_code, "_files", lambda: files[::12])  # all of them take long
    corpus = data.load(options.stdlib_code(holdout=20))
    assert len(corpus.heldout[0]) == 20
    assert len(corpus.train[0]) > 50
    assert data.describe(options.stdlib_code()) == [("stdlib_code", "retrieval", None)]
