from __future__ import annotations

import os
import threading

from embedexp.files import write_atomically


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    kept = path.open()
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert kept.read() == "old"
    kept.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_what_is_no_file_is_written_to_and_stays_what_it_is(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    write_atomically(path, "a table")
    reader.join()
    assert read == ["a table"]
    assert path.is_fifo()
