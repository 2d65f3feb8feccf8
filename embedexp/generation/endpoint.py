"""One request to an endpoint of OpenAI's protocol, repeated until it answers."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

from embedexp.config.errors import UserError, shorten

from .answers import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from embedexp.config.schema.generate import Generator, Retries

NO_KEY = "none"
AGAIN = (408, 409, 429)
UNUSABLE = (400, 413, 422)
WRONG_SET_UP = {
    401: "it does not accept the key",
    403: "the key gives no access",
    404: "it does not know the model, or the address is wrong",
}


class RejectedError(Exception):
    """The endpoint will not answer this request, however often it is asked."""


class _UnusableError(Exception):
    """A status of `UNUSABLE`, and what the endpoint says."""


class Endpoint:
    """Where one generator is asked.

    The key is read from the environment when it is used; it is in no config and no message.
    `waits` counts why requests were repeated. `answered`: it is known to take requests like these.
    """

    def __init__(self, name: str, option: Generator, retries: Retries) -> None:
        self.name, self.option, self.retries = name, option, retries
        self.waits: Counter[str] = Counter()
        self.answered = False
        self._open = 0  # requests that may still be answered
        self._key = self._read_key()
        self._client: Any = None

    def _read_key(self) -> str:
        variable = self.option.key_variable
        if variable is None:
            return NO_KEY
        key = os.environ.get(variable, "").strip()
        if not key:
            raise UserError(
                f"the environment variable {variable} holds no key",
                where=f"stage.generators.{self.name}.key_variable",
                hint=f"export {variable}=..., or set key_variable=null for an endpoint without",
            )
        return key

    def body(self, prompt: str, seed: int) -> dict[str, Any]:
        """The request: everything that decides the answer."""
        option = self.option
        body: dict[str, Any] = {
            "model": option.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": option.temperature,
            "top_p": option.top_p,
            "max_tokens": option.output_tokens,
            "seed": seed,
        }
        if option.json_mode:
            body["response_format"] = {"type": "json_object"}
        body |= option.extra
        return {name: value for name, value in body.items() if value is not None}

    async def __aenter__(self) -> Endpoint:
        from openai import AsyncOpenAI

        # Repeated here and not by the client, so that every reason is counted and stops are seen.
        self._client = AsyncOpenAI(
            api_key=self._key,
            base_url=self.option.url,
            timeout=self.retries.timeout,
            max_retries=0,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def ask(self, body: dict[str, Any], check: Callable[[], None]) -> Answer:
        """The answer to `body`; `check` is called before each try and may stop it.

        Raises:
            RejectedError: the endpoint calls this request unusable (a prompt too long, say).
            UserError: it does not answer, or not with the key, model or address that it was given.
        """
        self._open += 1
        try:
            return await self._tried(body, check)
        except _UnusableError as error:
            status, said = error.args
        finally:
            self._open -= 1
        # A request is rejected sooner than others are answered, whose answers tell whether it is
        # this request that is wrong or all of them.
        while self._open and not self.answered:
            await _wait(0.1, check)
        if self.answered:
            raise RejectedError(said)
        raise UserError(
            f"{self.option.url} answers its first request with {status} ({said})",
            where=f"stage.generators.{self.name}",
            hint="mend model, json_mode, output_tokens or extra",
        )

    async def _tried(self, body: dict[str, Any], check: Callable[[], None]) -> Answer:
        import openai

        for number in range(self.retries.tries):
            check()
            try:
                answer = _answer(
                    await self._client.post("/chat/completions", body=body, cast_to=object)
                )
            except openai.APIStatusError as error:
                status = error.status_code
                self._refuse(status, error)
                reason = "429 too many requests" if status == 429 else f"status {status}"
                after = error.response.headers.get("retry-after")
            except openai.APITimeoutError:
                reason, after = "timeout", None
            except openai.APIConnectionError:
                reason, after = "no connection", None
            except (openai.APIResponseValidationError, ValueError, LookupError, TypeError):
                reason, after = "an answer that is not of the protocol", None
            else:
                self.answered = True
                return answer
            self.waits[reason] += 1
            if number + 1 < self.retries.tries:
                await _wait(self._seconds(number, after), check)
        raise UserError(
            f"{self.option.url} did not answer {self.retries.tries} times, at last: {reason}",
            where=f"stage.generators.{self.name}",
            hint="see to the endpoint and run the same command again: what is there is kept",
        )

    def _refuse(self, status: int, error: Any) -> None:
        said = self._clean(str(error))
        where = f"stage.generators.{self.name}"
        if status in WRONG_SET_UP:
            hints = {401: "key_variable", 403: "key_variable", 404: "model and url"}
            raise UserError(
                f"{self.option.url} answers {status}: {WRONG_SET_UP[status]} ({said})",
                where=where,
                hint=f"mend {hints[status]}",
            ) from None
        if status in UNUSABLE:
            raise _UnusableError(status, said) from None
        if status < 500 and status not in AGAIN:
            raise UserError(f"{self.option.url} answers {status} ({said})", where=where) from None

    def _clean(self, text: str) -> str:
        """What an endpoint says, in short, without the key that it may repeat."""
        if self._key != NO_KEY:
            text = text.replace(self._key, "***")
        return shorten(" ".join(text.split()), 200)

    def _seconds(self, number: int, after: str | None) -> float:
        longest = self.retries.longest_wait
        try:
            if after is not None:
                return min(max(0.0, float(after)), longest)
        except ValueError:  # a date, which few send
            pass
        wait = self.retries.first_wait * 2**number
        return float(min(wait, longest) * random.uniform(0.75, 1.25))


async def _wait(seconds: float, check: Callable[[], None]) -> None:
    """Wait, looking for a stop every half second."""
    while seconds > 0:
        check()
        await asyncio.sleep(min(seconds, 0.5))
        seconds -= 0.5


def _answer(content: Any) -> Answer:
    """What the protocol's answer says.

    Raises:
        ValueError, LookupError, TypeError: it is not of the protocol.
    """
    (choice, *_) = content["choices"]
    message, usage = choice["message"], content.get("usage") or {}
    if not isinstance(message, dict) or not isinstance(usage, dict):
        raise TypeError("message and usage are objects")
    text, refusal = message.get("content"), message.get("refusal")
    if text is not None and not isinstance(text, str):
        raise TypeError("content is no text")
    return Answer(
        text or "",
        str(choice.get("finish_reason") or ""),
        str(refusal) if refusal else None,
        int(usage.get("prompt_tokens") or 0),
        int(usage.get("completion_tokens") or 0),
    )
