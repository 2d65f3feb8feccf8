"""A folder of the cache is there whole or not at all, and damage is noticed."""

import errno
import os
import time

import pytest

from embedexp.config.errors import UserError
from embedexp.data import cache
from embedexp.data.cache import WORK, cached, whole


@pytest.fixture
def built(tmp_path):
    def build(folder):
        (folder / "inner").mkdir(exist_ok=True)
        (folder / "inner" / "file").write_bytes(bytes(range(100)))
        (folder / WORK / "scratch").write_text("not kept")
        return {"answer": 42}

    return lambda: cached(tmp_path, "things", "key", build)


@pytest.fixture
def never(tmp_path):
    def build(folder):
        raise AssertionError

    return lambda: cached(tmp_path, "things", "key", build)


def test_a_folder_is_made_once(built, never, tmp_path):
    folder, facts = built()
    assert folder == tmp_path / "things" / "key"
    assert facts == {"answer": 42}
    assert never() == (folder, facts)
    assert sorted(path.name for path in folder.iterdir()) == ["inner", "store.json"]


def damage(file, *, time_too):
    state = file.stat()
    content = bytearray(file.read_bytes())
    content[50] ^= 1
    file.write_bytes(content)
    if not time_too:
        os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.mark.parametrize("time_too", [True, False])
def test_a_changed_bit_is_noticed(built, time_too):
    folder, _ = built()
    damage(folder / "inner" / "file", time_too=time_too)
    assert whole(folder) is None
    assert built()[0] == folder
    assert (folder / "inner" / "file").read_bytes() == bytes(range(100))


def test_of_a_large_folder_all_blocks_get_their_turn(built, monkeypatch):
    monkeypatch.setattr(cache, "BLOCK", 1 << 20)
    folder, _ = built()
    with (folder / "inner" / "file").open("wb") as file:
        file.truncate(8 << 20)
    cache._seal(folder, {"answer": 1})
    monkeypatch.setattr(cache, "READ_AT_OPENING", 2 << 20)  # two of eight blocks
    read = []
    checksum = cache._checksum
    monkeypatch.setattr(cache, "_checksum", lambda path, n: read.append(n) or checksum(path, n))
    for moment in range(4):
        monkeypatch.setattr(time, "time_ns", lambda moment=moment: moment)
        read.clear()
        assert whole(folder) == {"answer": 1}
        assert read == [moment, moment + 4]
    os.utime(folder / "inner" / "file")  # a copy, perhaps: all of it is read
    read.clear()
    assert whole(folder) == {"answer": 1}
    assert read == list(range(8))


def test_a_lost_file_or_one_of_another_size_is_noticed(built):
    folder, _ = built()
    file = folder / "inner" / "file"
    for change in (lambda: file.write_bytes(bytes(99)), file.unlink):
        change()
        assert whole(folder) is None
        built()
        assert whole(folder) == {"answer": 42}


def test_an_interrupted_build_is_handed_its_own_work(tmp_path):
    found = []

    def build(folder):
        found.append(sorted(p.name for p in (folder / WORK).iterdir()))
        (folder / WORK / f"step {len(found)}").touch()
        if len(found) < 3:
            raise KeyboardInterrupt
        return {}

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            cached(tmp_path, "things", "key", build)
        assert not (tmp_path / "things" / "key").exists()
    cached(tmp_path, "things", "key", build)
    assert found == [[], ["step 1"], ["step 1", "step 2"]]


def test_work_that_nobody_continues_is_thrown_away(tmp_path, built):
    for name, days in (("things-old", 15), ("things-recent", 13)):
        folder = tmp_path / "building" / name
        folder.mkdir(parents=True)
        moment = time.time() - days * 86_400
        os.utime(folder, (moment, moment))
    built()
    left = [path.name for path in (tmp_path / "building").iterdir() if path.is_dir()]
    assert left == ["things-recent"]


def test_a_full_disk_is_the_users_to_mend_and_a_missing_source_is_not_the_caches(tmp_path):
    def full(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def gone(folder):
        (tmp_path.parent / "no such source").read_bytes()

    with pytest.raises(UserError, match=r"can't be written: No space left.*\npaths\.cache="):
        cached(tmp_path, "things", "key", full)
    with pytest.raises(FileNotFoundError, match="no such source"):
        cached(tmp_path, "things", "key", gone)
