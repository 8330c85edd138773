"""Sessions in the model: make, change, list, delete, purge, read the head."""

from __future__ import annotations

import pytest

from ledgerstone.codec import encode_json
from ledgerstone.commands.attachments import GetAttachment, RecordIntent
from ledgerstone.commands.nodes import FindNodes, GetMessage, ReadMessages
from ledgerstone.commands.runs import GetRun, LatestRun, PutRun
from ledgerstone.commands.sessions import (
    CountSessions,
    CreateSession,
    DeleteSession,
    GetDocument,
    GetHead,
    GetOrCreateSession,
    GetPicker,
    GetSession,
    ListSessions,
    PurgeSession,
    PutSession,
    RestoreSession,
    SessionFilter,
    SweepPurged,
    UpdateSession,
)
from ledgerstone.errors import (
    AlreadyExists,
    RevisionMoved,
    SessionDeleted,
    SessionNotFound,
    SessionRetired,
)
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Cause, Page, Picker, Receipt, Session
from ledgerstone.records.usage import Usage, UsageEntry
from tests.unit.test_model_builders import START_US, Bench, S, T, event, said, value


def create(**fields: object) -> CreateSession:
    extra = {name: fields.pop(name) for name in ("document", "ensure") if name in fields}
    session = Session(**{"id": S, "tenant": T, **fields})  # type: ignore[arg-type]
    return CreateSession(tenant=T, session=session, **extra)  # type: ignore[arg-type]


def test_create_fills_the_times_and_keeps_every_field() -> None:
    bench = Bench()
    fields = {"user": "u", "app": "a", "title": "t", "model": "m", "cwd": "/", "status": "active"}
    made = bench.write(
        create(**fields, metadata={"k": [1]}, parent="p", cause=Cause("tool", "c"), document=b"{}")
    )
    assert (made.created_us, made.updated_us, made.incarnation) == (START_US, START_US, 1)
    assert {name: getattr(made, name) for name in fields} == fields
    assert (made.metadata, made.parent, made.cause) == ({"k": [1]}, "p", Cause("tool", "c"))
    assert bench.read(GetSession(tenant=T, id=S)) == made
    assert bench.read(GetDocument(tenant=T, session=S, name="document")) == b"{}"
    given = bench.write(create(id="s2", created_us=5))
    assert (given.created_us, given.updated_us) == (5, 5)


def test_create_again_is_the_same_one_only_when_it_is_equal() -> None:
    bench = Bench()
    made = bench.write(create(title="t", document=b"1"))
    bench.clock.advance(1)
    assert bench.write(create(title="t", document=b"1")) == made
    for other in (create(title="x", document=b"1"), create(title="t"), create(title="t", app="a")):
        with pytest.raises(AlreadyExists):
            bench.write(other)
    assert bench.write(create(title="x", ensure=True)) == made
    bench.write(DeleteSession(tenant=T, id=S))
    assert bench.write(create(ensure=True)).deleted_us == bench.clock.now_us()


def test_what_is_handed_out_is_never_what_is_kept() -> None:
    bench = Bench()
    metadata = {"list": [1]}
    made = bench.write(create(metadata=metadata))
    metadata["list"].append(2)
    made.metadata["list"].append(3)
    assert bench.read(GetSession(tenant=T, id=S)).metadata == {"list": [1]}


def test_put_overwrites_all_and_keeps_the_creation_time() -> None:
    bench = Bench()
    put = PutSession(tenant=T, session=Session(id=S, title="a", created_us=7), document=b"1")
    assert bench.write(put).created_us == 7
    bench.clock.advance(1)
    again = bench.write(PutSession(tenant=T, session=Session(id=S, user="u", created_us=9)))
    assert (again.title, again.user, again.created_us) == (None, "u", 7)
    assert again.updated_us == bench.clock.now_us()
    assert bench.read(GetDocument(tenant=T, session=S, name="document")) == b"1"
    given = bench.write(PutSession(tenant=T, session=Session(id=S, updated_us=3), document=None))
    assert given.updated_us == 3
    assert bench.read(GetDocument(tenant=T, session=S, name="document")) is None
    bench.write(DeleteSession(tenant=T, id=S))
    with pytest.raises(SessionDeleted):
        bench.write(put)


def test_get_or_create_finds_the_newest_live_session_of_user_and_app() -> None:
    bench = Bench()
    for name in ("b", "a", "c"):
        bench.write(create(id=name, user="u", app="x"))
    bench.write(create(id="other", user="u", app="y"))

    def get(new: str) -> str:
        wanted = Session(id=new, user="u", app="x")
        found: Session = bench.write(GetOrCreateSession(tenant=T, session=wanted))
        return found.id

    assert get("new") == "a"
    bench.clock.advance(1)
    bench.write(UpdateSession(tenant=T, id="c", title="t"))
    assert get("new") == "c"
    for name in "abc":
        bench.write(DeleteSession(tenant=T, id=name))
    assert get("new") == "new"


def test_update_sets_what_is_given_and_moves_only_the_time() -> None:
    bench = Bench()
    bench.write(create(title="t", model="m", metadata=1))
    updated = bench.write(UpdateSession(tenant=T, id=S, title=None, status="paused", document=b"d"))
    assert (updated.title, updated.model, updated.status, updated.metadata) == (
        None,
        "m",
        "paused",
        1,
    )
    assert updated.updated_us == START_US + 1, "a change is always later than the one before"
    assert bench.write(UpdateSession(tenant=T, id=S, metadata=None)).metadata is None
    with pytest.raises(SessionNotFound):
        bench.write(UpdateSession(tenant=T, id="x"))
    with pytest.raises(SessionNotFound):
        bench.write(UpdateSession(tenant="other", id=S))
    bench.write(DeleteSession(tenant=T, id=S))
    with pytest.raises(SessionDeleted):
        bench.write(UpdateSession(tenant=T, id=S))


def test_delete_and_restore_answer_whether_they_did_something() -> None:
    bench = Bench(S)
    before = bench.read(GetSession(tenant=T, id=S))
    assert bench.write(RestoreSession(tenant=T, id=S)) is False
    assert bench.write(DeleteSession(tenant=T, id=S)) is True
    assert bench.write(DeleteSession(tenant=T, id=S)) is False
    assert bench.write(DeleteSession(tenant=T, id="x")) is False
    assert bench.read(GetSession(tenant=T, id=S)).deleted_us == START_US
    assert bench.write(RestoreSession(tenant=T, id=S)) is True
    assert bench.read(GetSession(tenant=T, id=S)) == before


def test_list_orders_have_a_unique_tie_break_and_a_keyset() -> None:
    bench = Bench()
    for name, at in (("b", 1), ("a", 1), ("d", 2), ("c", 2)):
        bench.write(create(id=name, created_us=at, updated_us=10 - at))

    def ids(**fields: object) -> list[str]:
        page: Page[Session] = bench.read(ListSessions(tenant=T, **fields))  # type: ignore[arg-type]
        return [session.id for session in page]

    assert ids() == ["a", "b", "c", "d"] == ids(order="id")
    assert ids(order="updated") == ["c", "d", "a", "b"] == ids(order="-created")
    assert ids(order="created") == ["a", "b", "c", "d"]
    assert ids(order="-id") == ["d", "c", "b", "a"]
    assert ids(order="-created", after=(2, "c")) == ["d", "a", "b"]
    assert ids(order="created", after=(1, "b")) == ["c", "d"]
    assert ids(order="-updated", after=(9, "a"), limit=2) == ["b", "c"]
    assert ids(order="id", after=(0, "b")) == ["c", "d"]
    assert ids(order="-id", after=(0, "b")) == ["a"]
    page = bench.read(ListSessions(tenant=T, limit=2, offset=1, total=True, after=(9, "a")))
    assert ([s.id for s in page], page.has_more, page.total) == (["c", "d"], False, 4)
    assert bench.read(ListSessions(tenant=T, limit=3)).has_more
    assert bench.read(ListSessions(tenant=T, limit=4)) == Page(
        [bench.read(GetSession(tenant=T, id=name)) for name in "abcd"]
    )


def test_list_filters() -> None:
    bench = Bench()
    bench.write(create(id="a", user="u", app="x", status="active", parent="p", created_us=1))
    bench.write(create(id="b", metadata={"k": 1, "l": True}, created_us=2))
    bench.write(create(id="c", metadata={"k": 1}, created_us=3))
    bench.write(DeleteSession(tenant=T, id="c"))

    def ids(**fields: object) -> list[str]:
        where = SessionFilter(**fields)  # type: ignore[arg-type]
        page = bench.read(ListSessions(tenant=T, where=where, order="id"))
        assert bench.read(CountSessions(tenant=T, where=where)) == len(page)
        return [session.id for session in page]

    assert ids() == ["a", "b"]
    assert ids(deleted=True) == ["a", "b", "c"]
    for name, wanted in (("user", "u"), ("app", "x"), ("status", "active"), ("parent", "p")):
        assert ids(**{name: wanted}) == ["a"]
    assert ids(created_after_us=2, deleted=True) == ["b", "c"]
    assert ids(created_before_us=2) == ["a"]
    assert ids(metadata_equals=b"null") == ["a"]
    assert ids(metadata_equals=encode_json({"k": 1}, "m"), deleted=True) == ["c"]
    assert ids(metadata_contains={"k": 1}, deleted=True) == ["b", "c"]
    assert ids(metadata_contains={"l": 1}) == []
    assert bench.read(CountSessions(tenant="other")) == 0


def test_the_head_tells_where_the_session_stands() -> None:
    bench = Bench(S)
    assert bench.read(GetHead(tenant=T, id=S)) is None
    entries = (UsageEntry("m", Usage(1, 2)), UsageEntry("n", Usage()))
    answer = bench.commit(
        "t1",
        said("n1"),
        event("n2"),
        usage=entries,
        config=b'{"a":1}',
        frames=b'{"current":"f","frames":[{"id":"f"}]}',
    )
    head = bench.head()
    assert (head.revision, head.leaf, head.effective_leaf, head.seq) == (1, "n2", "n2", 2)
    assert (head.messages, head.user_messages, head.nodes) == (1, 1, 2)
    assert head.ledger == [UsageEntry("m", Usage(1, 2))]
    assert (head.config, head.frames, head.current_frame) == ({"a": 1}, [{"id": "f"}], "f")
    assert head.updated_us == answer.created_us == START_US + 1
    assert head.lease is None
    lease = bench.lease()
    assert bench.head().lease == lease
    assert bench.head().fence == 1
    bench.clock.advance(61)
    assert bench.head().lease is None


def test_the_picker_shows_the_first_user_message() -> None:
    bench = Bench()
    bench.write(create(cwd="/x", parent="p", cause=Cause("turn", "t")))
    cause = Cause("turn", "t")
    assert bench.read(GetPicker(tenant=T, id=S)) == Picker(S, "/x", "p", cause, None, 0)
    bench.commit("t1", said("n1", "be nice", "system"), said("n2", "hello"), said("n3", "again"))
    assert bench.read(GetPicker(tenant=T, id=S)) == Picker(S, "/x", "p", cause, "hello", 2)
    assert bench.read(GetPicker(tenant=T, id="x")) is None


def test_purge_hides_everything_at_once_and_leaves_a_stub() -> None:
    bench = Bench(S)
    lease = bench.lease()
    bench.write(RecordIntent(tenant=T, session=S, id="a1", uri="u"))
    bench.write(PutRun(tenant=T, run=Run(id="r1", session=S)))
    bench.clock.advance(61)
    bench.commit("t1", said("n1"), values=(value(b"v"),))
    link = bench.head().link
    with pytest.raises(RevisionMoved):
        bench.write(PurgeSession(tenant=T, id=S, expected_revision=7))
    receipt = bench.write(PurgeSession(tenant=T, id=S, expected_revision=1))
    assert receipt == Receipt(
        session=S,
        existed=True,
        incarnation=1,
        fence=lease.fence,
        link=link,
        removed={"attachments": 1},
    )
    for query in (
        GetSession(tenant=T, id=S),
        GetHead(tenant=T, id=S),
        GetRun(tenant=T, id="r1"),
        GetMessage(tenant=T, id="n1"),
        GetAttachment(tenant=T, session=S, id="a1"),
        LatestRun(tenant=T, session=S),
    ):
        assert bench.read(query) is None
    assert bench.read(FindNodes(tenant=T, id="n1")) == []
    assert bench.read(ReadMessages(tenant=T, session=S)) == []
    assert bench.write(PurgeSession(tenant=T, id=S)) == Receipt(session=S)


def test_a_purged_id_goes_on_from_its_stub() -> None:
    bench = Bench(S)
    fence = bench.lease().fence
    bench.write(PurgeSession(tenant=T, id=S))
    made = bench.write(create())
    assert made.incarnation == 2
    assert bench.lease("w2").fence == fence + 1
    assert bench.write(PurgeSession(tenant=T, id=S, retire=True)).retired
    for command in (create(), create(ensure=True), PutSession(tenant=T, session=Session(id=S))):
        with pytest.raises(SessionRetired):
            bench.write(command)


def test_an_unknown_id_can_be_retired() -> None:
    bench = Bench()
    assert bench.write(PurgeSession(tenant=T, id=S)) == Receipt(session=S)
    bench.write(create())
    bench.write(PurgeSession(tenant=T, id=S))
    assert bench.write(PurgeSession(tenant=T, id=S, retire=True)) == Receipt(
        session=S, retired=True
    )
    bench.write(PurgeSession(tenant=T, id="never", retire=True))
    for name in (S, "never"):
        with pytest.raises(SessionRetired):
            bench.write(create(id=name))


def test_kept_runs_stay_readable_by_id() -> None:
    bench = Bench(S)
    bench.write(PutRun(tenant=T, run=Run(id="r1", session=S)))
    bench.write(PurgeSession(tenant=T, id=S, keep_runs=True))
    assert bench.read(GetRun(tenant=T, id="r1")).incarnation == 1
    assert bench.read(LatestRun(tenant=T, session=S)) is None
    bench.write(create())
    assert bench.read(LatestRun(tenant=T, session=S)) is None
    again = bench.write(PutRun(tenant=T, run=Run(id="r1", session=S), upsert=True))
    assert again.incarnation == 2
    assert bench.read(LatestRun(tenant=T, session=S)) == again


def test_the_sweep_removes_bounded_pieces_until_nothing_is_left() -> None:
    bench = Bench(S, "s2")
    bench.commit("t1", said("n1"), said("n2"), values=(value(b"v"),), config=b"{}")
    bench.commit("t1", said("n1"), session="s2")
    bench.write(PurgeSession(tenant=T, id=S))
    bench.write(create())
    bench.commit("t1", said("n1"))
    assert bench.write(SweepPurged(tenant="other", limit=9)) == {}
    assert bench.write(SweepPurged(tenant=T, limit=3)) == {"nodes": 2, "turns": 1}
    assert bench.write(SweepPurged(tenant=T, limit=3)) == {"values": 1, "documents": 1}
    assert bench.write(SweepPurged(tenant=T, limit=3)) == {}
    assert bench.texts() == ["n1"] == bench.texts("s2")
    assert len(bench.model.state.node_ids) == 2
    assert bench.verify().ok
    assert bench.verify("s2").ok


def test_absence_on_a_read_is_no_error() -> None:
    bench = Bench()
    assert bench.read(GetSession(tenant=T, id=S)) is None
    assert bench.read(GetDocument(tenant=T, session=S, name="state")) is None
    assert bench.read(ListSessions(tenant=T)) == Page([])
    assert bench.read(ListSessions(tenant=T, total=True)) == Page([], total=0)
