"""store.messages, what is sent to a model: a context that fits, and when to compact."""

from __future__ import annotations

from ledgerstone.api.handle import Missing
from ledgerstone.api.message_reads import AsyncMessageReads
from ledgerstone.commands.context import ReadContext
from ledgerstone.commands.sessions import GetDocument
from ledgerstone.errors import Corrupt
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.compaction import checked_count, checked_prune, context_limit
from ledgerstone.records.context import Context, Prune
from ledgerstone.records.document import read_document
from ledgerstone.rules.context import Count, build, estimate


class AsyncContexts(AsyncMessageReads):
    """What of a conversation the model gets."""

    async def context(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        at: IdRef | None = None,
        budget_tokens: int | None = None,
        count: Count | None = None,
        prune: Prune | bool | None = None,
        keep_system: bool = True,
        missing: Missing = "empty",
    ) -> Context:
        """The messages to send now: leading system messages, the newest summary, the tail.

        Nothing that is stored changes. `prune` leaves old tool outputs out (True: as `Prune()`
        says); then whole messages go, oldest first, until `budget_tokens` are met: never a tool
        call without its results, the summary, a system message or the newest message.
        `count(message)` says how many tokens one takes; without it they are estimated from the
        length of the text. InvalidValue when the budget cannot be met.
        """
        if budget_tokens is not None:
            checks.positive(budget_tokens, "budget_tokens")
        checked_count(count)
        wanted = checked_prune(prune)
        checks.flag(keep_system, "keep_system")
        rows = await self._ask(
            ReadContext(
                tenant=self._tenant,
                session=checks.session_id(session),
                branch=checks.branch_name(branch),
                at=checks.maybe_id(at, "at"),
            ),
            missing,
        )
        return build(
            rows,
            keep_system=keep_system,
            prune=wanted,
            budget_tokens=budget_tokens,
            count=count or estimate,
        )

    async def should_compact(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        used_tokens: int | None = None,
        count: Count | None = None,
    ) -> bool:
        """Whether the context has grown beyond what the session's own settings allow.

        They are in the `config` of its document: `auto_compact`, `auto_compact_threshold` and
        `max_context_length`; False while the first is off or the last is 0. `used_tokens` is what
        the provider counted last, otherwise the context is counted. InvalidValue for settings
        that make no sense.
        """
        checked_count(count)
        if used_tokens is not None:
            checks.whole(used_tokens, "used_tokens")
        target = checks.session_id(session)
        data = await self._ask(GetDocument(tenant=self._tenant, session=target, name="document"))
        limit = None if data is None else context_limit(_config(data, target))
        if limit is None:
            return False
        if used_tokens is None:
            found = await self.context(target, branch=branch, count=count)
            used_tokens = found.tokens
        return used_tokens >= limit


def _config(data: bytes, session: str) -> object:
    try:
        return read_document(data)["config"]
    except ValueError as error:
        raise Corrupt("documents", session, "document", str(error)) from None
