"""store.session(id): one conversation, as other libraries show it, and in their words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from msgspec.structs import replace

from ledgerstone import formats, ids
from ledgerstone.api.blobs import AsyncBlobs
from ledgerstone.api.message_reads import MessageList
from ledgerstone.api.messages import AsyncMessages
from ledgerstone.errors import InvalidValue
from ledgerstone.formats.media import blobs_of, with_bytes
from ledgerstone.formats.natives import origin
from ledgerstone.formats.objects import from_objects, to_objects
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Session

Objects: TypeAlias = list[Any]


class AsyncConversation:
    """A session in the words of any library: `as_...` reads it, `add_...` appends to it.

    Messages that were added in a format come back in it exactly; the others are rendered from
    their parts. All `as_...` take a branch, `at` for the path of another node, and `last` for the
    newest messages only; a session that is not there is empty. All `add_...` are one commit, with
    the errors of `messages.append`, and InvalidValue that names what cannot be kept.
    """

    def __init__(self, messages: AsyncMessages, blobs: AsyncBlobs, session: SessionRef) -> None:
        self._messages = messages
        self._blobs = blobs
        self.id = checks.session_id(session)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r}>"

    async def as_openai(
        self,
        *,
        chat: bool = False,
        branch: str = "main",
        last: int | None = None,
        at: IdRef | None = None,
    ) -> Objects:
        """Items of OpenAI's Responses API; with `chat`, messages of its chat completions."""
        format = "openai-chat" if checks.flag(chat, "chat") else "openai"
        return await self._shown(format, branch, last, at)

    async def as_anthropic(
        self, *, branch: str = "main", last: int | None = None, at: IdRef | None = None
    ) -> dict[str, Any]:
        """{"messages": ..., "system": ...} for Anthropic's API; "system" only if there is one."""
        shown = await self._shown("anthropic", branch, last, at)
        found: dict[str, Any] = {"messages": [one for one in shown if one["role"] != "system"]}
        prompts = [one["content"] for one in shown if one["role"] == "system"]
        if prompts:
            found["system"] = [block for content in prompts for block in _blocks(content)]
        return found

    async def as_langchain(
        self, *, branch: str = "main", last: int | None = None, at: IdRef | None = None
    ) -> Objects:
        """Messages of langchain_core; ImportError without it."""
        return await self._shown("langchain", branch, last, at)

    async def as_pydantic_ai(
        self, *, branch: str = "main", last: int | None = None, at: IdRef | None = None
    ) -> Objects:
        """ModelRequest and ModelResponse of pydantic_ai; ImportError without it."""
        return await self._shown("pydantic-ai", branch, last, at)

    async def as_adk(
        self,
        *,
        author: str | None = None,
        branch: str = "main",
        last: int | None = None,
        at: IdRef | None = None,
    ) -> Objects:
        """Events of google.adk; ImportError without it.

        `author` is the agent that answers without a name are shown as: ADK tells an agent's own
        answers from those of others by it.
        """
        return await self._shown("adk", branch, last, at, author)

    async def add_openai(
        self,
        items: Iterable[Any],
        *,
        chat: bool = False,
        create: bool | Session = False,
        branch: str = "main",
        run_id: IdRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> MessageList:
        """Append items of the Responses API; with `chat`, messages of chat completions."""
        checks.flag(chat, "chat")
        return await self._append(
            "openai-chat" if chat else "openai",
            items,
            create,
            branch,
            run_id,
            lease,
            expected_revision,
        )

    async def add_anthropic(
        self,
        messages: Iterable[Any] | dict[str, Any],
        *,
        create: bool | Session = False,
        branch: str = "main",
        run_id: IdRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> MessageList:
        """Append messages of Anthropic's API; also with their prompt, as `as_anthropic` gives."""
        return await self._append(
            "anthropic", _with_prompt(messages), create, branch, run_id, lease, expected_revision
        )

    async def add_langchain(
        self,
        messages: Iterable[Any],
        *,
        create: bool | Session = False,
        branch: str = "main",
        run_id: IdRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> MessageList:
        """Append messages of langchain_core."""
        return await self._append(
            "langchain", messages, create, branch, run_id, lease, expected_revision
        )

    async def add_pydantic_ai(
        self,
        messages: Iterable[Any],
        *,
        create: bool | Session = False,
        branch: str = "main",
        run_id: IdRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> MessageList:
        """Append requests and responses of pydantic_ai."""
        return await self._append(
            "pydantic-ai", messages, create, branch, run_id, lease, expected_revision
        )

    async def add_adk(
        self,
        events: Iterable[Any],
        *,
        create: bool | Session = False,
        branch: str = "main",
        run_id: IdRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> MessageList:
        """Append events of google.adk."""
        return await self._append("adk", events, create, branch, run_id, lease, expected_revision)

    async def _append(
        self,
        format: str,
        given: object,
        create: bool | Session,
        branch: str,
        run_id: IdRef | None,
        lease: AnyLease | None,
        expected_revision: int | None,
    ) -> MessageList:
        if isinstance(given, str | bytes | dict) or not isinstance(given, Iterable):
            raise InvalidValue(format, f"a list of messages expected, got {type(given).__name__}")
        return await self._messages.append(
            self.id,
            *formats.keep_all(format, from_objects(format, given)),
            create=create,
            branch=branch,
            run_id=run_id,
            lease=lease,
            expected_revision=expected_revision,
        )

    async def _shown(
        self,
        format: str,
        branch: str,
        last: int | None,
        at: IdRef | None,
        author: str | None = None,
    ) -> Objects:
        if last is None:
            found = await self._messages.history(self.id, branch=branch, at=at)
        else:
            found = await self._messages.last(self.id, last, branch=branch, at=at)
        whole = [await self._with_bytes(message) for message in found]
        if author is not None:
            name = ids.check_name(author, "author")
            whole = [_by(message, name) for message in whole]
        return to_objects(format, formats.native(format, whole))

    async def _with_bytes(self, message: Message) -> Message:
        """The message with the bytes of its blobs, which other libraries do not know."""
        refs = blobs_of(message)
        if not refs:
            return message
        return with_bytes(message, {ref: await self._blobs.get(ref) for ref in refs})


def _blocks(content: object) -> Objects:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _with_prompt(given: object) -> object:
    """Messages of Anthropic's API in one list, the prompt first."""
    if not isinstance(given, dict) or "messages" not in given:
        return given
    if not isinstance(given["messages"], list | tuple):
        kind = type(given["messages"]).__name__
        raise InvalidValue("anthropic.messages", f"a list of messages expected, got {kind}")
    prompt = given.get("system")
    first = [] if prompt in (None, "", []) else [{"role": "system", "content": prompt}]
    return [*first, *given["messages"]]


def _by(message: Message, author: str) -> Message:
    """An answer without a name as that agent's; events are what they were."""
    if message.role != "assistant" or message.body.name is not None or origin(message) == "adk":
        return message
    return replace(message, body=replace(message.body, name=author))
