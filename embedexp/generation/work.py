"""Many questions to several generators at a time: kept, resumable, within a budget."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError
from embedexp.data.progress import Progress

from .answers import REJECTED, AnswerFile, key_of
from .endpoint import Endpoint, RejectedError
from .reading import InvalidError
from .shares import generator as random_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from embedexp.config.schema.generate import Generating

    from .answers import Answer

ANSWERS = "answers.jsonl"


@dataclass(frozen=True)
class Question:
    """One piece of work: a prompt for a generator, and how its answer is read.

    `read` returns the answer's fields, or raises `InvalidError`. `identity` is what random
    choices of this question depend on, besides the attempt.
    """

    identity: str
    generator: str
    prompt: str
    read: Callable[[Answer], dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """A question, the fields of its first valid answer (None: it has none), and the reasons."""

    question: Question
    fields: dict[str, Any] | None
    reasons: tuple[str, ...]


class Work:
    """Asks, and reads what was asked before.

    `folder` holds this run's answers, `cache` those of all runs. Questions are asked again, with
    another seed, until an answer is valid or `option.attempts` are used up. `check` is called
    often, and may stop the work at any time: nothing that was answered is lost.
    """

    def __init__(
        self,
        option: Generating,
        seed: int,
        folder: Path,
        cache: Path,
        check: Callable[[], None],
        on_progress: Callable[[int, int, float | None], None],
    ) -> None:
        self.option, self.seed, self.check, self.on_progress = option, seed, check, on_progress
        self.endpoints = {
            name: Endpoint(name, generator, option.retries)
            for name, generator in option.generators.items()
        }
        self.answers = AnswerFile(folder / ANSWERS)
        self._cache_folder = cache
        self._caches: dict[str, AnswerFile] = {}
        self._asking = 0
        # A line for each request would bury everything else.
        for name in ("openai", "httpx", "httpx2", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)

    def ask(self, questions: Callable[[], Iterable[Question]], what: str) -> None:
        """Ask whatever has no valid answer and attempts left.

        Raises:
            UserError: the budget is used up, or an endpoint does not answer.
        """
        total, missing = 0, []
        for number, question in enumerate(questions()):
            total += 1
            if self._next(question) is not None:
                missing.append(number)
        if missing:
            try:
                asyncio.run(self._ask(questions, missing, total, what))
            except BaseExceptionGroup as group:
                raise _first(group) from None

    def outcomes(self, questions: Iterable[Question]) -> Iterator[Outcome]:
        """What came of questions that have been asked, in their order."""
        for question in questions:
            reasons: list[str] = []
            fields = None
            for attempt in range(self.option.attempts):
                answer = self.answers.get(key_of(self._body(question, attempt)))
                if answer is None:
                    break
                try:
                    fields = question.read(answer)
                    break
                except InvalidError as error:
                    reasons.append(str(error))
            yield Outcome(question, fields, tuple(reasons))

    def waits(self) -> dict[str, Counter[str]]:
        """Why requests were repeated since this start, by generator."""
        return {name: endpoint.waits for name, endpoint in self.endpoints.items()}

    def _body(self, question: Question, attempt: int) -> dict[str, Any]:
        endpoint = self.endpoints[question.generator]
        seed = random_of(self.seed, question.identity, attempt).getrandbits(31)
        return endpoint.body(question.prompt, seed)

    def _next(self, question: Question) -> int | None:
        """The attempt that is to be made, or None if the question is done with."""
        for attempt in range(self.option.attempts):
            answer = self.answers.get(key_of(self._body(question, attempt)))
            if answer is None:
                return attempt
            if answer != REJECTED:
                self.endpoints[question.generator].answered = True
            try:
                question.read(answer)
            except InvalidError:
                continue
            return None
        return None

    async def _ask(
        self,
        questions: Callable[[], Iterable[Question]],
        missing: list[int],
        total: int,
        what: str,
    ) -> None:
        wanted = set(missing)
        todo = (question for number, question in enumerate(questions()) if number in wanted)
        done = total - len(missing)
        failure: UserError | None = None
        loop = asyncio.get_running_loop()
        began = loop.time()
        with Progress(what, total, "answers", done) as progress:

            async def worker() -> None:
                nonlocal done, failure
                for question in todo:  # shared by all: each takes the next
                    try:
                        await self._until_valid(question)
                    except UserError as error:
                        failure = failure or error
                    if failure is not None:  # what others wait for is paid for: let it come
                        return
                    done += 1
                    progress.add(1)
                    rate = (done - total + len(missing)) / max(loop.time() - began, 1e-9)
                    self.on_progress(done, total, (total - done) / rate)

            async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
                for endpoint in self.endpoints.values():
                    await stack.enter_async_context(endpoint)
                for _ in islice(missing, self.option.concurrency):
                    group.create_task(worker())
        if failure is not None:
            raise failure

    async def _until_valid(self, question: Question) -> None:
        while (attempt := self._next(question)) is not None:
            body = self._body(question, attempt)
            key = key_of(body)
            cache = self._cache(question.generator)
            known = cache.get(key)
            if known is not None:
                self.answers.add(key, replace(known, paid=False))
                continue
            self._within_budget()
            self._asking += 1
            try:
                answer = await self.endpoints[question.generator].ask(body, self.check)
                cache.add(key, answer)
            except RejectedError:
                answer = REJECTED
            finally:
                self._asking -= 1
            self.answers.add(key, answer)

    def _cache(self, generator: str) -> AnswerFile:
        # By address as well: two endpoints may call different models by one name.
        option = self.option.generators[generator]
        name = hashlib.sha256(f"{option.url}\0{option.model}".encode()).hexdigest()[:16]
        if name not in self._caches:
            self._caches[name] = AnswerFile(self._cache_folder / f"{name}.jsonl")
        return self._caches[name]

    def _within_budget(self) -> None:
        self.check()
        budget = self.option.budget
        if budget.requests is not None and self.answers.paid + self._asking >= budget.requests:
            raise _spent("requests", budget.requests, self.answers.paid)
        if budget.tokens is not None and self.answers.tokens >= budget.tokens:
            raise _spent("tokens", budget.tokens, self.answers.tokens)


def _spent(what: str, limit: int, spent: int) -> UserError:
    return UserError(
        f"the budget is used up: {spent:,} of {limit:,} {what}",
        where=f"stage.budget.{what}",
        hint=f"raise stage.budget.{what} and run the same command again: what is there is kept",
    )


def _first(group: BaseException) -> BaseException:
    """The first error of a group."""
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group
