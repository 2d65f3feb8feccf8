"""`data=beir`: the relevance judgements of a BEIR folder as pairs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, nearest
from embedexp.config.schema.data import Columns

from . import files, reading
from .lines import read_lines
from .rows import BadRowError, Reader, Row, bad_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embedexp.config.schema.data import Beir

    from .dataset import Corpus
    from .rows import Wanted

COLUMNS = Columns(
    query="query",
    positive="positive",
    negatives=None,
    score=None,
    group=None,
    language=None,
    label=None,
    teacher_scores=None,
    prompt=None,
    text=None,
)
TASK = "retrieval"


def load(option: Beir, cache_dir: str | Path | None = None) -> Corpus:
    """One pair for each judgement above 0: the query, and title and text of the document.

    The texts of all judged documents are held in memory, those of the others are not; of the whole
    corpus, only the pairs are kept.

    Raises:
        UserError: a file is missing, damaged or not as BEIR writes it, or rows are bad.
    """
    return reading.read(option, reader(option), fingerprint(option), cache_dir, COLUMNS, TASK)


def reader(option: Beir) -> Reader:
    """The judgements, numbered by their line in the file of the split."""
    corpus, queries, judgements = _files(option)

    def rows(wanted: Wanted | None) -> Iterator[Row]:
        del wanted
        judged = [row for row in _judgements(judgements) if row[3] is None or row[3] > 0]
        asked = _texts(queries, {query for _, query, _, score in judged if score is not None})
        found = _texts(corpus, {name for _, _, name, score in judged if score is not None})
        for number, query, document, score in judged:
            fields: dict[str, Any] | BadRowError
            if score is None:
                fault = "needs a query, a document and a whole number, between tabs"
                fields = BadRowError("not a judgement", fault)
            elif query not in asked:
                fields = BadRowError("unknown query", f"no query {query} in {queries.name}")
            elif document not in found:
                detail = f"no document {document} in {corpus.name}"
                fields = BadRowError("unknown document", detail)
            else:
                fields = {"query": asked[query], "positive": found[document]}
            yield Row(str(judgements), number, fields)

    return Reader(Path(option.path).expanduser().absolute().name, rows)


def fingerprint(option: Beir) -> str:
    """SHA-256 of the three files' bytes."""
    return files.fingerprint(_files(option))


def describe(option: Beir) -> list[tuple[str, str, int | None]]:
    """The folder's name and task; its number of examples would need reading."""
    _files(option)
    return [(Path(option.path).expanduser().absolute().name, TASK, None)]


def _files(option: Beir) -> list[Path]:
    """Corpus, queries and judgements."""
    folder = Path(option.path).expanduser()
    where = f"data.path={option.path}"
    if not folder.is_dir():
        raise UserError(
            f"{folder} is not a folder" if folder.exists() else f"{folder} does not exist",
            where=where,
            hint="name a folder with corpus.jsonl, queries.jsonl and qrels/",
        )
    found = [_packed(folder, "corpus.jsonl"), _packed(folder, "queries.jsonl")]
    for path, name in zip(found, ("corpus.jsonl", "queries.jsonl"), strict=True):
        if path is None:
            raise UserError(f"{folder} has no {name}", where=where, hint="is it a BEIR folder?")
    judgements = folder / "qrels" / f"{option.split}.tsv"
    if not judgements.is_file():
        there = sorted(p.stem for p in (folder / "qrels").glob("*.tsv"))
        near = nearest(option.split, there) or next(iter(there), None)
        raise UserError(
            f"{folder} has no qrels/{option.split}.tsv; there are: {', '.join(there) or 'none'}",
            where=f"data.split={option.split}",
            hint=f"did you mean data.split={near}?" if near else "is it a BEIR folder?",
        )
    return [*(path for path in found if path), judgements]


def _packed(folder: Path, name: str) -> Path | None:
    paths = (folder / (name + ending) for ending in files.COMPRESSIONS)
    return next((path for path in paths if path.is_file()), None)


def _judgements(file: Path) -> Iterator[tuple[int, str, str, int | None]]:
    """Line, query, document and grade (None where the line is wrong); the header is passed over."""
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            cells = line.rstrip("\r\n").split("\t")
            if number == 1 and not _whole(cells[-1]):
                continue
            if line.strip():
                good = len(cells) == 3 and _whole(cells[2])
                grade = int(cells[2]) if good else None
                yield number, cells[0], cells[1] if good else "", grade


def _whole(text: str) -> bool:
    return text.strip().lstrip("-").isdecimal()


def _texts(file: Path, wanted: set[str]) -> dict[str, str]:
    """By identifier, the text behind the title where there is one, as mteb joins them."""
    found: dict[str, str] = {}
    for number, line in read_lines(file):
        if isinstance(line, BadRowError):
            raise bad_row(str(file), number, line.detail)
        name = line.get("_id")
        if name is None or str(name) not in wanted:
            if name is None:
                raise bad_row(str(file), number, 'no field "_id"')
            continue
        title, text = line.get("title"), line.get("text")
        if not isinstance(text, str) or not isinstance(title, str | None):
            raise bad_row(str(file), number, 'the fields "text" and "title" must be text')
        found[str(name)] = f"{title} {text}".strip() if title else text.strip()
    return found
