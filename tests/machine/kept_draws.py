"""Random bytes, artifacts, evidence and budgets, few enough that they meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from ledgerstone.codec import encode_json, sha256
from ledgerstone.commands import Command, Query
from ledgerstone.commands.artifacts import (
    DeleteArtifacts,
    GetArtifact,
    ListArtifacts,
    LoadArtifacts,
    NewArtifact,
    Owner,
    PutArtifact,
    SaveArtifacts,
)
from ledgerstone.commands.blobs import (
    BeginUpload,
    CheckRoots,
    CondemnUpload,
    CountBlobs,
    DropBlob,
    FinishUpload,
    ForgetUpload,
    GetBlob,
    ListBlobs,
    ListUnreferenced,
    ListUploads,
    PutChunk,
    ReadChunk,
    TouchBlob,
)
from ledgerstone.commands.evidence import (
    AppendEvidence,
    DeleteEvidence,
    LoadEvidence,
    SaveEvidence,
)
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.usage import (
    DeleteUsage,
    DropBudget,
    FindBudgets,
    GetStats,
    ListBudgets,
    ListUsage,
    SetBudget,
    SummariseUsage,
)
from ledgerstone.records.artifacts import Quota
from ledgerstone.records.stats import BUDGET_MODES, GROUPINGS, PERIODS, Budget
from tests.machine import draws

US = 1_000_000
DAY_US = 86_400 * US
CONTENTS = (b"one", b"two!", b"\x00" * 9)
ABSENT = sha256(b"never put")
REFS = (*map(sha256, CONTENTS), ABSENT)
UPLOADS = tuple(f"u{n}" for n in range(1, 10))
NAMES = ("plan", "plan", "notes/../plan", "Plan")
OWNERS = (
    *(Owner(session=id) for id in (*("s1",) * 6, "s2", "s3")), Owner(user="u1"), Owner(),
)  # fmt: skip
QUOTAS = (None, None, Quota(2, 99), Quota(2, 99, "oldest_out"), Quota(9, 8, "oldest_out"))
LATER_US = draws.START_US * 2
# Seconds, minutes, the next day, the next month: budgets begin anew at the last two.
WAITS_S = (0, 0, 0, 0, 0.0015, 20, 61, 6400, 86_400, 17 * 86_400)

refs = st.sampled_from((*REFS[:3] * 4, ABSENT))
uploads = st.sampled_from(UPLOADS)
media_types = st.sampled_from((None, None, "text/plain", "image/png"))
owners = st.sampled_from(OWNERS)
names = st.sampled_from(NAMES)
artifact_ids = st.sampled_from(tuple(f"a{n}" for n in range(1, 7)))
uris = st.sampled_from(("", "", "", "x:1", "x:2", "artifact:a1"))
quotas = st.sampled_from(QUOTAS)
kinds: st.SearchStrategy[Any] = st.sampled_from(("trace", "report"))
moments = st.sampled_from((0, draws.START_US, draws.START_US + 30 * US, LATER_US))
documents = draws.small_json.map(lambda value: encode_json({"v": value}, "document"))
bodies = st.lists(documents, max_size=3).map(tuple)
budget_ids = st.sampled_from(("g1", "g2", "g3"))


def sums_of(data: bytes) -> bytes:
    return bytes.fromhex(sha256(data))


@st.composite
def new_artifacts(draw: st.DrawFn) -> NewArtifact:
    metadata = draw(st.one_of(st.none(), draws.small_json))
    return NewArtifact(
        id=draw(artifact_ids),
        name=draw(names),
        ref=draw(refs),
        media_type=draw(media_types),
        metadata=None if metadata is None else encode_json(metadata, "metadata"),
        tool=draw(st.sampled_from((None, "grep"))),
        original_bytes=draw(st.sampled_from((None, None, 0, 2**40))),
        shown_bytes=draw(st.sampled_from((None, None, 7))),
        uri=draw(uris),
    )


some_artifacts = st.lists(new_artifacts(), max_size=3, unique_by=lambda one: one.id).map(tuple)


@st.composite
def blob_writes(draw: st.DrawFn, tenant: str) -> Command[Any]:
    """Single steps of uploads, mostly of others; whole ones are a rule of the machine."""
    key, n = draw(uploads), draw(st.integers(0, 2))
    finish = FinishUpload(
        tenant=tenant,
        key=key,
        ref=REFS[n],
        size_bytes=len(CONTENTS[n]),
        sums=sums_of(CONTENTS[n]),
        media_type=draw(media_types),
        instead_of=draw(st.one_of(st.none(), st.none(), uploads)),
    )
    drop = DropBlob(tenant=tenant, ref=draw(refs), before_us=draw(moments))
    return draw(
        st.sampled_from(
            (
                BeginUpload(tenant=tenant, key=key, place="database"),
                PutChunk(tenant=tenant, key=key, n=draw(st.integers(0, 1)), data=CONTENTS[n]),
                finish,
                CondemnUpload(tenant=tenant, key=key, before_us=draw(moments)),
                ForgetUpload(tenant=tenant, key=key),
                TouchBlob(tenant=tenant, ref=draw(refs), media_type=draw(media_types)),
                drop,
                drop,
            )
        )
    )


@st.composite
def artifact_writes(draw: st.DrawFn, tenant: str) -> Command[Any]:
    owner, session = draw(owners), draw(draws.sessions)
    kind = draw(st.integers(0, 9))
    if kind < 6:
        made, quota = draw(new_artifacts()), draw(quotas) if owner.session else None
        return PutArtifact(tenant=tenant, owner=owner, artifact=made, quota=quota)
    if kind < 8:
        made_all = draw(some_artifacts)
        return SaveArtifacts(tenant=tenant, session=session, artifacts=made_all, quota=draw(quotas))
    named = {"name": draw(names), "version": draw(st.sampled_from((None, 1, 2)))}
    which: dict[str, Any] = draw(st.sampled_from(({}, named, named, {"id": draw(artifact_ids)})))
    return DeleteArtifacts(tenant=tenant, owner=owner, **which)


@st.composite
def evidence_writes(draw: st.DrawFn, tenant: str) -> Command[Any]:
    place: dict[str, Any] = {"tenant": tenant, "session": draw(draws.sessions)}
    place["kind"] = draw(kinds)
    append = AppendEvidence(
        bodies=draw(bodies), key=draw(st.sampled_from((None, None, "k1", "k2"))), **place
    )
    save = SaveEvidence(bodies=draw(bodies), **place)
    return draw(st.sampled_from((append, append, append, save, DeleteEvidence(**place))))


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    scope: Any = draw(st.sampled_from(("tenant", "user", "session", "session")))
    subject = {"tenant": None, "user": "u1", "session": draw(draws.sessions)}[scope]
    by_cost = draw(st.booleans())
    return Budget(
        id=draw(budget_ids),
        scope=scope,
        subject=subject,
        period=draw(st.sampled_from(PERIODS)),
        cost_nano=draw(st.sampled_from((0, 7, 60))) if by_cost else None,
        currency=draw(st.sampled_from(("USD", "USD", "EUR"))),
        tokens=draw(st.sampled_from((12, 90))) if not by_cost or draw(st.booleans()) else None,
        mode=draw(st.sampled_from(BUDGET_MODES)),
    )


@st.composite
def usage_writes(draw: st.DrawFn, tenant: str) -> Command[Any]:
    kind, session = draw(st.integers(0, 11)), draw(draws.sessions)
    if kind < 4:
        return SetBudget(tenant=tenant, budget=draw(budgets()))
    if kind < 9:
        return CommitTurn(
            tenant=tenant,
            session=session,
            turn=draw(draws.turns),
            kind="usage",
            usage=tuple(draw(st.lists(draws.usages(), min_size=1, max_size=2))),
            over_budget=draw(st.sampled_from((False, False, False, True))),
        )
    if kind < 10:
        return DropBudget(tenant=tenant, id=draw(budget_ids))
    return DeleteUsage(tenant=tenant, session=session)


@st.composite
def questions(draw: st.DrawFn) -> Query[Any]:
    return draw(st.one_of(blob_questions(), artifact_questions(), usage_questions()))


@st.composite
def blob_questions(draw: st.DrawFn) -> Query[Any]:
    common: dict[str, Any] = {"tenant": draw(draws.tenants)}
    before_us, limit = draw(moments), draw(draws.limits)
    return draw(
        st.sampled_from(
            (
                GetBlob(ref=draw(refs), **common),
                ReadChunk(key=draw(uploads), n=draw(st.integers(0, 1)), **common),
                ListUnreferenced(
                    before_us=before_us, intents_before_us=draw(st.sampled_from((-1, LATER_US))),
                    after=draw(st.sampled_from(("", *REFS))), limit=limit,
                    **common,
                ),
                ListUploads(
                    before_us=before_us, after=draw(st.sampled_from(("", "u2"))), limit=limit,
                    **common,
                ),
                CountBlobs(**common),
                ListBlobs(after=draw(st.sampled_from(("", *REFS))), limit=limit, **common),
                CheckRoots(session=draw(draws.sessions), **common),
            )
        )
    )  # fmt: skip


@st.composite
def artifact_questions(draw: st.DrawFn) -> Query[Any]:
    common: dict[str, Any] = {"tenant": draw(draws.tenants)}
    owner, name = draw(owners), draw(names)
    limit = draw(st.one_of(st.none(), draws.limits))
    return draw(
        st.sampled_from(
            (
                GetArtifact(owner=owner, name=name, **common),
                GetArtifact(owner=owner, name=name, version=draw(st.integers(0, 3)), **common),
                GetArtifact(owner=owner, id=draw(artifact_ids), **common),
                GetArtifact(owner=owner, uri=draw(uris.filter(bool)), **common),
                ListArtifacts(
                    owner=owner,
                    name=draw(st.one_of(st.none(), names)),
                    newest=draw(st.booleans()),
                    after=draw(draws.offsets),
                    limit=limit,
                    **common,
                ),
                LoadArtifacts(session=draw(draws.sessions), **common),
                LoadEvidence(
                    session=draw(draws.sessions),
                    kind=draw(kinds),
                    after=draw(draws.offsets),
                    limit=limit,
                    **common,
                ),
            )
        )
    )


@st.composite
def usage_questions(draw: st.DrawFn) -> Query[Any]:
    common: dict[str, Any] = {"tenant": draw(draws.tenants)}
    session = draw(st.one_of(st.none(), draws.sessions))
    edges = st.sampled_from(
        (None, None, draws.START_US, draws.START_US + 30 * US, draws.START_US // DAY_US * DAY_US)
    )
    summary = SummariseUsage(
        by=draw(st.lists(st.sampled_from(GROUPINGS), max_size=3, unique=True).map(tuple)),
        session=session,
        user=draw(st.sampled_from((None, None, "u1"))) if session is None else None,
        since_us=draw(edges),
        until_us=draw(st.one_of(edges, st.just(draws.START_US + 3 * DAY_US))),
        include_children=session is not None and draw(st.booleans()),
        **common,
    )
    listed = ListUsage(
        session=draw(draws.sessions),
        after=(draw(draws.offsets), draw(st.integers(0, 1))),
        limit=draw(st.one_of(st.none(), draws.limits)),
        **common,
    )
    stats = GetStats(session=draw(draws.sessions), **common)
    bounding = ListBudgets(session=session, **common)
    met = FindBudgets(session=session, user=draw(st.sampled_from((None, "u1"))), **common)
    return draw(st.sampled_from((summary, summary, summary, listed, stats, bounding, met)))
