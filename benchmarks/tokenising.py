"""Memory, time and disk of reading and tokenising a million pairs, and of training on them.

    python benchmarks/tokenising.py [--pairs 1000000] [--folder FOLDER] [--limit 1000]

Pairs come as a stream of JSON lines with lengths as in web search (a query of 3 to 12 words, a
passage of 10 to 110, an eighth of the passages repeated) over the vocabulary of the vendored
tokenizer. Each step is a process of its own:

- read: the stream into the file of examples;
- tokenise: the file into the store, prompts and lengths as in the default config;
- draw: open the store and gather 1,000 batches of 256 pairs at random;
- resumed: a tenth of the pairs, killed with signal 9 about half way, and again; the store must
  equal, byte for byte, one that was built in one go. (A kill costs at most the million tokens
  since the last commit: fewer than a million pairs in all are too few to show it.)

Columns: wall and processor seconds; peak of private memory (what the process owns), and of resident
memory (which counts mapped files that the system may drop at any time), in MiB; `start` is the
private memory with all libraries and the tokenizer loaded. Exits with 1 if private memory grows by
more than `--limit` MiB over that, or a resumed store differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCHES, BATCH = 1000, 256
STEPS = ("read", "tokenise", "draw")


class Memory(threading.Thread):
    """The peak of a process's private memory, looked at every 20 ms."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.start_mib = self.peak_mib = private_mib()
        self.start()

    def run(self) -> None:
        """Until the process ends."""
        while True:
            self.peak_mib = max(self.peak_mib, private_mib())
            time.sleep(0.02)


def private_mib() -> float:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not say how much memory a process owns")


def load_tokenizer() -> Any:
    from transformers import AutoTokenizer

    from embedexp.data import vendored

    return AutoTokenizer.from_pretrained(vendored.tokenizer_folder(), local_files_only=True)


def lines(pairs: int, words: list[str]) -> Iterator[str]:
    """JSON lines, the same in every run."""
    chance = random.Random(0)
    recent: list[str] = []
    for n in range(pairs):
        query = " ".join(chance.choices(words, k=chance.randint(3, 12)))
        if recent and chance.random() < 1 / 8:
            passage = recent[chance.randrange(len(recent))]
        else:
            passage = " ".join(chance.choices(words, k=chance.randint(10, 110)))
        if n % 100 == 0:
            recent = [*recent[-999:], passage]
        yield json.dumps({"query": query, "positive": passage})


def examples(folder: Path, pairs: int, words: list[str]) -> Any:
    from embedexp.data.columns import Example, ExampleStore

    rows = (Example(**json.loads(line)) for line in lines(pairs, words))
    return ExampleStore.build(
        name="synthetic", task="retrieval", rows=rows, cache_dir=folder, key=f"{pairs} pairs"
    )


def step(name: str, folder: Path, pairs: int) -> dict[str, float]:
    """One step; the store of examples is found in the cache by all but the first."""
    from embedexp import compose
    from embedexp.data import Corpus
    from embedexp.data.tokenise import tokenise

    tokenizer = load_tokenizer()
    words = sorted(word for word in tokenizer.get_vocab() if word.isalpha() and word.isascii())
    embedding = compose([]).embedding
    calls = {"texts": 0}

    class Counting:
        """The tokenizer, with the texts that it was given counted."""

        def __call__(self, text: list[str], **options: Any) -> Any:
            calls["texts"] += len(text)
            return tokenizer(text, **options)

        def __getattr__(self, attribute: str) -> Any:
            return getattr(tokenizer, attribute)

    memory, begin, before = Memory(), time.perf_counter(), time.process_time()
    dataset = examples(folder, pairs, words)
    facts: dict[str, float] = {}
    if name != "read":
        done = tokenise(Corpus((dataset,)), Counting(), embedding, folder)
        facts = {"sequences": len(done.store), "tokens": len(done.store.flat)}
    if name == "draw":
        import numpy as np

        facts["open_s"] = time.perf_counter() - begin
        chance = np.random.default_rng(0)
        data = done.datasets[0]
        for _ in range(BATCHES):
            rows = np.sort(chance.choice(len(data), BATCH, replace=False))
            done.store.gather(np.concatenate([data.query_ids[rows], data.positive_ids[rows]]))
            assert (data.query_keys[rows] >= -1).all()
    return {
        "wall_s": time.perf_counter() - begin,
        "cpu_s": time.process_time() - before,
        "start_mib": memory.start_mib,
        "private_mib": memory.peak_mib,
        "resident_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "tokenised": calls["texts"],
        **facts,
    }


def command(name: str, folder: Path, pairs: int) -> list[str]:
    here = str(Path(__file__).resolve())
    return [sys.executable, here, "--step", name, "--folder", str(folder), "--pairs", str(pairs)]


def run(name: str, folder: Path, pairs: int, shown: str | None = None) -> dict[str, float]:
    """A step in a process of its own; prints its figures."""
    done = subprocess.run(command(name, folder, pairs), stdout=subprocess.PIPE, check=True)
    facts: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{shown or name:10} {facts['wall_s']:8.1f} {facts['cpu_s']:8.1f} "
        f"{facts['start_mib']:9.0f} {facts['private_mib']:9.0f} {facts['resident_mib']:9.0f}"
        f" {facts['tokenised']:10,.0f}",
        flush=True,
    )
    return facts


def killed_half_way(folder: Path, pairs: int, tokens: float) -> bool:
    """Start to tokenise and kill the process when half of the tokens are on the disk."""
    with subprocess.Popen(command("tokenise", folder, pairs), stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            written = sum(p.stat().st_size for p in folder.glob("building/*/tokens.npy"))
            if written > 4 * tokens / 2:
                process.send_signal(signal.SIGKILL)
                return process.wait() == -signal.SIGKILL
            time.sleep(0.05)
    return False


def content(folder: Path) -> dict[str, str]:
    """The hash of every array of the store of a cache."""
    found = {}
    for path in sorted(folder.glob("tokens/*/**/*.npy")):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        found["/".join(path.parts[len(folder.parts) + 2 :])] = digest
    return found


def size_mib(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to work; about 1 KiB a pair")
    parser.add_argument("--limit", type=float, default=1000, help="MiB of private memory")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(step(given.step, given.folder, given.pairs)))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="tokenising-", dir=given.folder))
    problems = []
    print(f"{given.pairs:,} pairs on {os.cpu_count()} processors")
    print("step         wall s    cpu s     start   private  resident  tokenised")
    try:
        for name in STEPS:
            facts = run(name, folder / "whole", given.pairs)
            if facts["private_mib"] - facts["start_mib"] > given.limit:
                problems.append(f"{name} owns more than {given.limit:.0f} MiB")
        print(
            f"{facts['sequences']:,.0f} distinct texts, {facts['tokens']:,.0f} tokens; "
            f"opened in {facts['open_s']:.2f} s; examples "
            f"{size_mib(folder / 'whole' / 'examples'):.0f} MiB, store "
            f"{size_mib(folder / 'whole' / 'tokens'):.0f} MiB"
        )
        tenth = given.pairs // 10
        whole = run("tokenise", folder / "once", tenth, "a tenth")
        killed = killed_half_way(folder / "killed", tenth, whole["tokens"])
        again = run("tokenise", folder / "killed", tenth, "resumed")
        if not killed or again["tokenised"] >= whole["tokenised"]:
            problems.append("the killed build was not continued")
        if content(folder / "once") != content(folder / "killed"):
            problems.append("the resumed store differs from one built in one go")
        print(
            f"resumed: {again['tokenised'] / whole['tokenised']:.0%} of the texts tokenised again"
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for problem in problems:
        print(f"FAILED: {problem}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
