"""`data=debian`: short -> long descriptions of packages, from this machine's own package lists.

Nothing of it is shipped: the descriptions have their packages' licences.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from embedexp.config.errors import UserError

from .dataset import Corpus, Dataset
from .hashing import shuffled
from .holdout import hold_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embedexp.config.schema.data import Debian

APT_HELPER = Path("/usr/lib/apt/apt-helper")  # knows every compression that apt writes
SHORTEST, LONGEST = 80, 600  # characters of a long description
_LIST = re.compile(r"_(?P<kind>Packages|i18n_Translation-en)(\.[a-z0-9]+)?$")
# Companions of a source's main package, described in almost the same words.
_COMPANION = re.compile(
    r"-(dev|docs?|dbg|dbgsym|data|common|bin|utils|tools|examples|tests?|source|headers.*|l10n.*)$"
)
_SKIPPED_SECTIONS = {"debug", "rust"}  # made by machines, word for word alike
_HINT = "fetch them: apt-get update -o Acquire::Languages=en (or name a folder with data.lists)"


@dataclass(frozen=True, slots=True)
class _Package:
    name: str
    source: str
    short: str
    long: str


def load(option: Debian, cache_dir: str | Path | None = None) -> Corpus:
    """One pair for each source package; no short description and no beginning of a long one twice.

    Raises:
        UserError: there are no package lists, as on another system or before `apt-get update`.
    """
    del cache_dir  # small enough to be held in memory
    packages = shuffled(_distinct(_read(option)), "debian", lambda p: p.name)
    if not packages:
        raise UserError("the package lists describe no package", where=option.lists, hint=_HINT)
    whole = Dataset("debian", "retrieval", [p.short for p in packages], [p.long for p in packages])
    train, heldout = hold_out(whole, option.holdout, option.max_examples)
    return Corpus((train,), heldout, fingerprint(option))


def fingerprint(option: Debian) -> str:
    """SHA-256 of the package lists as they lie on the disk."""
    digest = hashlib.sha256()
    for file in sorted(path for paths in _lists(option).values() for path in paths):
        digest.update(file.name.encode() + b"\0")
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def describe(option: Debian) -> list[tuple[str, str, int | None]]:
    """The dataset's name and task; its number of examples would need reading."""
    _lists(option)
    return [("debian", "retrieval", None)]


def _lists(option: Debian) -> dict[str, list[Path]]:
    """The files of both kinds: packages, and their descriptions in English."""
    folder = Path(option.lists).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"{folder} does not exist: data=debian reads the package lists of Debian or Ubuntu.",
            where=f"data.lists={option.lists}",
            hint="name a folder of such lists with data.lists, or use another data option",
        )
    found: dict[str, list[Path]] = {"Packages": [], "i18n_Translation-en": []}
    for path in sorted(folder.iterdir()):
        if match := _LIST.search(path.name):
            found[match["kind"]].append(path)
    for kind, what in (("Packages", "package lists"), ("i18n_Translation-en", "descriptions")):
        if not found[kind]:
            raise UserError(f"{folder} has no {what} (*_{kind}*)", hint=_HINT)
    return found


def _read(option: Debian) -> Iterator[_Package]:
    lists = _lists(option)
    described: dict[tuple[str, str], tuple[str, str]] = {}
    for path in lists["i18n_Translation-en"]:
        for stanza in _stanzas(path, {"Package", "Description-md5", "Description-en"}):
            short, _, long = stanza.get("Description-en", "").partition("\n")
            key = stanza.get("Package", ""), stanza.get("Description-md5", "")
            described[key] = short.strip(), _paragraphs(long)
    for path in lists["Packages"]:
        for stanza in _stanzas(path, {"Package", "Source", "Section", "Description-md5"}):
            name = stanza.get("Package", "")
            texts = described.get((name, stanza.get("Description-md5", "")))
            section = stanza.get("Section", "").rpartition("/")[2]
            if texts and section not in _SKIPPED_SECTIONS:
                source = stanza.get("Source", name).split(" ")[0]
                yield _Package(name, source, *texts)


def _distinct(packages: Iterator[_Package]) -> list[_Package]:
    by_source: dict[str, list[_Package]] = {}
    for package in packages:
        by_source.setdefault(package.source, []).append(package)
    shorts: set[str] = set()
    longs: set[str] = set()
    kept = []
    for source in sorted(by_source):
        package = min(by_source[source], key=_rank)
        short, long = package.short.lower(), package.long.lower()[:120]
        placeholder = "dummy" in short or "transitional" in short
        if len(package.long) < SHORTEST or placeholder or short in shorts or long in longs:
            continue
        shorts.add(short)
        longs.add(long)
        kept.append(package)
    return kept


def _rank(package: _Package) -> tuple[bool, bool, int, str]:
    """The package that says most about its source comes first."""
    companion = bool(_COMPANION.search(package.name))
    return package.name != package.source, companion, len(package.name), package.name


def _paragraphs(long: str) -> str:
    """A long description as running text, cut at a word.

    Lines begin with a space; one with only a dot separates paragraphs (Debian Policy 5.6.13).
    """
    text = " ".join(" ".join("" if line == "." else line for line in long.split("\n")).split())
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0]


def _stanzas(path: Path, wanted: set[str]) -> Iterator[dict[str, str]]:
    """The wanted fields of each stanza (deb822(5)); continuation lines come stripped."""
    fields = {name.encode(): name for name in wanted}
    stanza: dict[str, str] = {}
    field: str | None = None
    for line in _lines(path):
        if line[:1] in b" \t":  # also the empty string, which no line is
            if field:
                stanza[field] += "\n" + line.strip().decode("utf-8", "replace")
        elif line == b"\n":
            yield stanza
            stanza, field = {}, None
        else:
            name, _, value = line.partition(b":")
            field = fields.get(name)
            if field:
                stanza[field] = value.strip().decode("utf-8", "replace")
    if stanza:
        yield stanza


def _lines(path: Path) -> Iterator[bytes]:
    if path.suffix == ".gz":
        with gzip.open(path) as lines:
            yield from lines
    elif path.suffix == ".xz":
        with lzma.open(path) as lines:
            yield from lines
    elif path.suffix in (".lz4", ".zst", ".bz2"):
        yield from _through_apt(path)
    else:
        with path.open("rb") as lines:
            yield from lines


def _through_apt(path: Path) -> Iterator[bytes]:
    if not APT_HELPER.exists():
        raise UserError(
            f"{path.name} can only be decompressed by apt, which is not installed here",
            where=f"in {path.parent}",
            hint="decompress the lists, and name their folder with data.lists",
        )
    with subprocess.Popen([str(APT_HELPER), "cat-file", str(path)], stdout=subprocess.PIPE) as apt:
        assert apt.stdout is not None
        yield from apt.stdout
    if apt.returncode:
        raise UserError(f"apt cannot read {path.name}", where=f"in {path.parent}", hint=_HINT)
