"""WordNet 3.1 (Princeton): synsets that have an example, and what can be learned from them.

Every example of every dataset is made of synsets of one split, and no two synsets share a gloss, so
that nothing held out is ever seen in training.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from .hashing import share, shuffled, stable_hash
from .vendored import read_json, read_json_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HELD_OUT_SHARE = 0.1
TRAINING_PAIRS = 10_000

_PARTS = {"noun": "noun", "verb": "verb", "adj": "adjective", "adv": "adverb"}
_CLASSES = {
    "noun.Tops": "general (noun)",
    "adj.all": "general (adjective)",
    "adj.pert": "relational (adjective)",
    "adj.ppl": "participial (adjective)",
    "adv.all": "general (adverb)",
}


@dataclass(frozen=True, slots=True)
class Synset:
    """A meaning: the first lemma that has it, an example of its use, and its definition."""

    id: str  # part of speech and offset, such as n00007846
    lemma: str
    example: str
    gloss: str
    lexicographer_class: str  # such as noun.animal
    parent: str | None  # first hypernym

    @property
    def query(self) -> str:
        """The lemma in use."""
        return f"{self.lemma}: {self.example}"

    @property
    def label(self) -> str:
        """The lexicographer class in words, such as `animal (noun)`."""
        part, _, name = self.lexicographer_class.partition(".")
        return _CLASSES.get(self.lexicographer_class) or f"{name} ({_PARTS[part]})"

    @property
    def held_out(self) -> bool:
        """Whether it is kept for evaluation."""
        return share("wordnet", self.id) < HELD_OUT_SHARE


@dataclass(frozen=True)
class Taxonomy:
    """The tree of first hypernyms: `parents[child]`, roots left out."""

    parents: dict[str, str]
    _paths: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def path(self, synset: str) -> tuple[str, ...]:
        """From the root down to the synset, both included."""
        if synset not in self._paths:
            parent = self.parents.get(synset)
            self._paths[synset] = (*(self.path(parent) if parent else ()), synset)
        return self._paths[synset]

    def similarity(self, first: str, second: str) -> float:
        """2·d(lowest common ancestor) / (d(first) + d(second)), where the root has depth d = 1.

        In [0, 1]; 0 without a common ancestor. Source: Wu and Palmer (1994), "Verb semantics and
        lexical selection", section 4.
        """
        one, other = self.path(first), self.path(second)
        common = 0
        for a, b in zip(one, other, strict=False):
            if a != b:
                break
            common += 1
        return 2 * common / (len(one) + len(other))


@cache
def synsets() -> tuple[Synset, ...]:
    """All shipped synsets, by id."""
    return tuple(
        Synset(row["id"], row["lemma"], row["example"], row["gloss"], row["class"], row["parent"])
        for row in read_json_lines("wordnet.jsonl.xz")
    )


@cache
def taxonomy() -> Taxonomy:
    """Hypernyms of the shipped synsets, up to the roots."""
    above: dict[str, str] = dict(read_json("wordnet_hypernyms.json.xz"))
    return Taxonomy(above | {s.id: s.parent for s in synsets() if s.parent})


@cache
def split(*, held_out: bool) -> tuple[Synset, ...]:
    """The synsets of one split, by id."""
    return tuple(synset for synset in synsets() if synset.held_out is held_out)


def siblings(members: Iterable[Synset]) -> list[tuple[Synset, Synset]]:
    """Each synset with another one under the same direct hypernym, in shuffled order."""
    groups: dict[str, list[Synset]] = defaultdict(list)
    for synset in shuffled(members, "siblings", lambda s: s.id):
        if synset.parent:
            groups[synset.parent].append(synset)
    pairs = [
        (synset, group[(position + 1) % len(group)])
        for group in groups.values()
        if len(group) > 1
        for position, synset in enumerate(group)
    ]
    return shuffled(pairs, "sibling pairs", lambda pair: pair[0].id)


def scored_pairs(members: Sequence[Synset], limit: int) -> list[tuple[Synset, Synset, float]]:
    """Pairs of nouns and their taxonomic similarity, spread over its range.

    Each noun meets another one below an ancestor drawn uniformly from its own: near relatives and
    strangers are about as frequent. Verbs stay out: theirs are hundreds of shallow trees.
    """
    tree = taxonomy()
    nouns = shuffled((s for s in members if s.id[0] == "n"), "scored pairs", lambda s: s.id)
    below: dict[str, list[Synset]] = defaultdict(list)
    for noun in nouns:
        for ancestor in tree.path(noun.id)[:-1]:
            below[ancestor].append(noun)
    pairs: list[tuple[Synset, Synset, float]] = []
    seen: set[frozenset[str]] = set()
    for turn in range(3):
        for noun in nouns:
            if len(pairs) == limit:
                return pairs
            ancestors = tree.path(noun.id)[:-1]
            if not ancestors:
                continue
            draw = stable_hash("relative", noun.id, str(turn))
            candidates = below[ancestors[draw % len(ancestors)]]
            other = candidates[draw // len(ancestors) % len(candidates)]
            pair = frozenset((noun.id, other.id))
            if len(pair) == 2 and pair not in seen:
                seen.add(pair)
                pairs.append((noun, other, tree.similarity(noun.id, other.id)))
    return pairs


def labelled(
    members: Iterable[Synset], parts: str, *, at_least: int, at_most: int
) -> list[tuple[str, str]]:
    """Glosses and class labels of the parts of speech (`"nv"`), balanced and in shuffled order.

    Classes with fewer than `at_least` members are left out; of the others at most `at_most` count.
    """
    classes: dict[str, list[Synset]] = defaultdict(list)
    for synset in shuffled(members, "labelled", lambda s: s.id):
        if synset.id[0] in parts:
            classes[synset.label].append(synset)
    kept = [s for group in classes.values() if len(group) >= at_least for s in group[:at_most]]
    return [(s.gloss, s.label) for s in shuffled(kept, "labelled order", lambda s: s.id)]
