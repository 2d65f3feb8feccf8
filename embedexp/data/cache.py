"""Folders in the cache that are there whole or not at all, however many processes make them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from embedexp.config.errors import UserError
from embedexp.files import to_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BLOCK = 1 << 24  # bytes under one checksum
READ_AT_OPENING = 1 << 28  # bytes read again at each opening, at most, of a folder that looks whole
KEPT_SECONDS = 14 * 86_400  # how long the work of an interrupted build waits to be continued
DESCRIPTION = "store.json"
WORK = "work"


def cached(
    cache_dir: str | Path, kind: str, key: str, build: Callable[[Path], Mapping[str, Any]]
) -> tuple[Path, dict[str, Any]]:
    """The folder `<cache>/<kind>/<key>` and its facts, found there or made by `build`.

    `build(folder)` fills a folder that it has to itself, and returns facts (JSON) about it. When it
    is interrupted, the next call finds there what it left: it may go on. What it puts in
    `folder / WORK` is gone in the end. Of several processes that want the same folder, one builds
    and the others wait. The folder gets its name when all of it is on the disk.

    Raises:
        UserError: nothing can be written there, or the disk is full.
    """
    root = Path(cache_dir).expanduser()
    final = root / kind / key
    if (facts := whole(final)) is not None:
        return final, facts
    building = root / "building" / f"{kind}-{key}"
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        building.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(building.with_suffix(".lock")).acquire()
    except OSError as error:
        raise _unwritable(cache_dir, error) from None
    with held:
        if (facts := whole(final)) is not None:  # made while this process waited
            return final, facts
        try:
            _forget_abandoned(building.parent)
            (building / WORK).mkdir(parents=True, exist_ok=True)
            os.utime(building)
            facts = dict(build(building))
            shutil.rmtree(building / WORK)
            _seal(building, facts)
            shutil.rmtree(final, ignore_errors=True)  # if it is there, it is damaged
            building.replace(final)
            to_disk(final.parent)
        except OSError as error:
            there = str(error.filename or "").startswith(str(root))
            if there or error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _unwritable(cache_dir, error) from None
            raise  # what is built from can't be read
    facts = whole(final)
    assert facts is not None
    return final, facts


def _unwritable(cache_dir: str | Path, error: OSError) -> UserError:
    return UserError(
        f"the cache {cache_dir} can't be written: {error.strerror}",
        where=f"paths.cache={cache_dir}",
        hint="set paths.cache, or EMBEDEXP_CACHE, to a folder with room in which you may write",
    )


def whole(folder: Path) -> dict[str, Any] | None:
    """The facts of a folder that is as it was made, else None.

    Sizes are compared always. Contents, by checksum: all of them where files were touched since
    (a copy, a repair) or are small; else a quarter of a gigabyte, another one each time.
    """
    try:
        described = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        files = described["files"]
        places = [(name, block) for name in files for block in range(len(files[name]["crc32"]))]
        touched = False
        for name, file in files.items():
            there = (folder / name).stat()
            if there.st_size != file["bytes"]:
                return None
            touched |= there.st_mtime_ns != file["modified"]
        apart = 1 if touched else max(1, len(places) * BLOCK // READ_AT_OPENING)
        for name, block in places[time.time_ns() % apart :: apart]:
            if _checksum(folder / name, block) != files[name]["crc32"][block]:
                return None
        facts = described["facts"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return facts if isinstance(facts, dict) else None


def _seal(folder: Path, facts: dict[str, Any]) -> None:
    """Write down what is in a folder, and have all of it on the disk."""
    files = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.name == DESCRIPTION:
            continue
        to_disk(path)
        state = path.stat()
        files[path.relative_to(folder).as_posix()] = {
            "bytes": state.st_size,
            "modified": state.st_mtime_ns,
            "crc32": list(_checksums(path, state.st_size)),
        }
    description = folder / DESCRIPTION
    description.write_text(json.dumps({"facts": facts, "files": files}), encoding="utf-8")
    for path in (description, folder):
        to_disk(path)


def _checksums(path: Path, size: int) -> Iterator[int]:
    for block in range(-(-size // BLOCK)):
        yield _checksum(path, block)


def _checksum(path: Path, block: int) -> int:
    with path.open("rb") as file:
        file.seek(block * BLOCK)
        value = 0
        for _ in range(BLOCK >> 20):
            value = zlib.crc32(file.read(1 << 20), value)
        return value


def _forget_abandoned(folder: Path) -> None:
    """Remove what builds left that nobody continued for two weeks."""
    for path in folder.iterdir():
        if path.is_dir() and time.time() - path.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(path, ignore_errors=True)
