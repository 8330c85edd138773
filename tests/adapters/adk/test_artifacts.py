"""The artifact service: versions from 0, complete lists, references that stay in their scope."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.adk.artifacts import InMemoryArtifactService
from google.adk.artifacts.artifact_util import get_artifact_uri
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from ledgerstone import Quota, Store
from ledgerstone.adapters.adk import LedgerArtifactService, LedgerSessionService, store_id
from ledgerstone.errors import InvalidValue, QuotaExceeded
from tests.adapters.adk.scripted import KEY, on, run
from tests.adapters.conftest import decided_by_the_adapter

HERE: dict[str, Any] = {**KEY, "session_id": "s"}
BYTES = types.Part.from_bytes(data=b"\x00\xff", mime_type="image/png")
TEXT = types.Part(text="h\u00e9llo")
LONE = types.Part(text="half a \ud83d")
REMOTE = types.Part.from_uri(file_uri="gs://bucket/x", mime_type="video/mp4")
HALF = types.Part.from_uri(file_uri="gs://bucket/\ud83d", mime_type="video/mp4")
EMPTY = types.Part(
    inline_data=types.Blob(data=b"", mime_type="application/octet-stream", display_name="n")
)
NAMED = types.Part(
    inline_data=types.Blob(data=b"x", mime_type="a/b", display_name="n"), thought_signature=b"\xfe"
)


PARTS = [BYTES, TEXT, REMOTE, HALF, NAMED, EMPTY, LONE, types.Part(text="")]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_comes_back_as_it_was(store_url: str, colour: str, part: types.Part) -> None:
    async def work(store: Any) -> None:
        service = LedgerArtifactService(store)
        stock = InMemoryArtifactService()
        for one in (service, stock):
            assert await one.save_artifact(**HERE, filename="f", artifact=part) == 0
            as_json = part.model_dump(mode="json", by_alias=True, exclude_none=True)
            assert await one.save_artifact(**HERE, filename="f", artifact=as_json) == 1
            for version in (None, 0, 1):
                got = await one.load_artifact(**HERE, filename="f", version=version)
                assert got == part
        ours = await service.get_artifact_version(**HERE, filename="f", version=0)
        theirs = await stock.get_artifact_version(**HERE, filename="f", version=0)
        assert ours is not None
        assert theirs is not None
        assert (ours.version, ours.mime_type) == (theirs.version, theirs.mime_type)

    on(store_url, colour, work)


def test_versions_and_names(adapter_store: Store) -> None:
    service = LedgerArtifactService(adapter_store)

    async def work() -> None:
        for n in range(3):
            saved = await service.save_artifact(
                **HERE, filename="a/b.txt", artifact=TEXT, custom_metadata={"n": n}
            )
            assert saved == n
        assert await service.list_versions(**HERE, filename="a/b.txt") == [0, 1, 2]
        described = await service.list_artifact_versions(**HERE, filename="a/b.txt")
        assert [one.custom_metadata for one in described] == [{"n": 0}, {"n": 1}, {"n": 2}]
        newest = await service.get_artifact_version(**HERE, filename="a/b.txt")
        assert newest == described[-1]
        assert newest.canonical_uri == get_artifact_uri("trips", "ada", "a/b.txt", 2, "s")
        for missing in (-1, 3):
            assert await service.load_artifact(**HERE, filename="a/b.txt", version=missing) is None
            got = await service.get_artifact_version(**HERE, filename="a/b.txt", version=missing)
            assert got is None
        assert await service.load_artifact(**HERE, filename="c") is None
        assert await service.list_versions(**HERE, filename="c") == []
        await service.delete_artifact(**HERE, filename="a/b.txt")
        await service.delete_artifact(**HERE, filename="a/b.txt")
        assert await service.list_artifact_keys(**HERE) == []
        assert await service.save_artifact(**HERE, filename="a/b.txt", artifact=TEXT) == 0

    run(work())


def test_a_users_artifacts_are_in_all_his_sessions(adapter_store: Store) -> None:
    service = LedgerArtifactService(adapter_store)
    other = {**KEY, "session_id": "t"}

    async def work() -> None:
        await service.save_artifact(**HERE, filename="user:logo", artifact=BYTES)
        await service.save_artifact(**KEY, filename="bare", artifact=TEXT)
        await service.save_artifact(**HERE, filename="own", artifact=TEXT)
        assert await service.list_artifact_keys(**HERE) == ["own", "user:bare", "user:logo"]
        assert await service.list_artifact_keys(**other) == ["user:bare", "user:logo"]
        assert await service.list_artifact_keys(**KEY) == ["user:bare", "user:logo"]
        for name in await service.list_artifact_keys(**other):
            assert await service.load_artifact(**other, filename=name) is not None
        bob = {"app_name": "trips", "user_id": "bob"}
        assert await service.list_artifact_keys(**bob) == []
        app = {"app_name": "notes", "user_id": "ada"}
        assert await service.list_artifact_keys(**app) == []

    run(work())


def test_the_list_is_complete(adapter_store: Store) -> None:
    service = LedgerArtifactService(adapter_store)

    async def work() -> None:
        for n in range(620):
            await service.save_artifact(**HERE, filename=f"{n:04}", artifact=TEXT)
        assert await service.list_artifact_keys(**HERE) == [f"{n:04}" for n in range(620)]

    run(work())


def test_references(adapter_store: Store) -> None:
    service = LedgerArtifactService(adapter_store)

    def ref(name: str, session: str | None = "s", user: str = "ada", version: int = 0) -> Any:
        uri = get_artifact_uri("trips", user, name, version, session)
        return types.Part(file_data=types.FileData(file_uri=uri))

    async def save(name: str, part: types.Part) -> None:
        await service.save_artifact(**HERE, filename=name, artifact=part)

    async def work() -> None:
        await save("real", TEXT)
        await save("link", ref("real"))
        await save("link2", ref("link"))
        assert await service.load_artifact(**HERE, filename="link2") == TEXT
        described = await service.get_artifact_version(**HERE, filename="link")
        assert described is not None
        assert described.mime_type is None
        await service.save_artifact(**HERE, filename="user:logo", artifact=BYTES)
        await save("to user", ref("user:logo", None))
        assert await service.load_artifact(**HERE, filename="to user") == BYTES
        for stranger in (ref("x", "s", "bob"), ref("x", "t")):
            with pytest.raises(InputValidationError, match="scope"):
                await save("bad", stranger)
        broken = types.Part(file_data=types.FileData(file_uri="artifact://x"))
        with pytest.raises(InputValidationError, match="Invalid artifact reference"):
            await save("bad", broken)
        await save("ring", ref("ring2"))
        await save("ring2", ref("ring"))
        with pytest.raises(InputValidationError, match="recursion"):
            await service.load_artifact(**HERE, filename="ring")
        assert "bad" not in await service.list_artifact_keys(**HERE)

    run(work())


def test_refusals(adapter_store: Store) -> None:
    service = LedgerArtifactService(adapter_store, quota=Quota(count=1))
    call = types.Part(function_call=types.FunctionCall(name="f"))
    for part in (types.Part(), call):
        with pytest.raises(InputValidationError, match="Not supported"):
            run(service.save_artifact(**HERE, filename="f", artifact=part))
    with pytest.raises(InvalidValue, match="session_id: text expected"):
        run(service.save_artifact(**{**HERE, "session_id": 5}, filename="f", artifact=TEXT))
    for blank in ("", " "):
        nowhere = {**HERE, "session_id": blank}
        with pytest.raises(InvalidValue, match="session_id: must not be empty"):
            run(service.save_artifact(**nowhere, filename="f", artifact=TEXT))
        with pytest.raises(InvalidValue, match="session_id: must not be empty"):
            run(service.list_artifact_keys(**nowhere))
    for name in ("", "x" * 300, "a\nb"):
        with pytest.raises(InvalidValue, match="name"):
            run(service.save_artifact(**HERE, filename=name, artifact=TEXT))
    with pytest.raises(InvalidValue, match="metadata"):
        run(
            service.save_artifact(**HERE, filename="f", artifact=TEXT, custom_metadata={"f": print})
        )
    run(service.save_artifact(**HERE, filename="f", artifact=TEXT))
    with pytest.raises(QuotaExceeded):
        run(service.save_artifact(**HERE, filename="g", artifact=TEXT))


@decided_by_the_adapter
@pytest.mark.parametrize(
    ("app", "user", "field"),
    [
        ("trips", "", "user_id"),
        ("trips", "a\0da", "user_id"),
        ("trips", "a" * 256, "user_id"),
        ("trips", None, "user_id"),
        ("", "ada", "app_name"),
        ("tri\0ps", "ada", "app_name"),
        (None, "ada", "app_name"),
    ],
)
@pytest.mark.parametrize(("filename", "session"), [("user:f", "s"), ("f", None), ("f", "s")])
def test_owners_are_checked(
    adapter_store: Store, app: Any, user: Any, field: str, filename: str, session: str | None
) -> None:
    service = LedgerArtifactService(adapter_store)
    owner: dict[str, Any] = {"app_name": app, "user_id": user, "session_id": session}
    one = {**owner, "filename": filename}

    async def work() -> None:
        for call in (
            service.save_artifact(**one, artifact=TEXT),
            service.load_artifact(**one),
            service.list_versions(**one),
            service.list_artifact_versions(**one),
            service.get_artifact_version(**one),
            service.delete_artifact(**one),
            service.list_artifact_keys(**owner),
        ):
            with pytest.raises(InvalidValue, match=field):
                await call

    run(work())


def test_they_go_with_their_session_and_stay_in_their_tenant(adapter_store: Store) -> None:
    acme = adapter_store.for_tenant("acme")
    service, sessions = LedgerArtifactService(acme), LedgerSessionService(acme)
    theirs = LedgerArtifactService(adapter_store.for_tenant("globex"))

    async def work() -> None:
        await sessions.create_session(**HERE)
        await service.save_artifact(**HERE, filename="f", artifact=BYTES)
        await service.save_artifact(**HERE, filename="user:g", artifact=BYTES)
        assert await theirs.list_artifact_keys(**HERE) == []
        assert await theirs.load_artifact(**HERE, filename="f") is None
        await sessions.delete_session(**HERE)
        assert await service.list_artifact_keys(**HERE) == ["user:g"]

    run(work())


def test_what_others_keep_in_the_session(adapter_store: Store) -> None:
    id = store_id(**HERE)
    adapter_store.artifacts.put("chart", b"\x89", session=id, media_type="image/png")
    service = LedgerArtifactService(adapter_store)
    got = run(service.load_artifact(**HERE, filename="chart"))
    assert got == types.Part.from_bytes(data=b"\x89", mime_type="image/png")


@pytest.mark.parametrize("seed", range(3))
def test_the_same_as_in_memory(store_url: str, colour: str, seed: int) -> None:
    async def program(service: Any) -> list[Any]:
        pick = random.Random(seed)
        log: list[Any] = []
        for _ in range(40):
            where = {**KEY, "session_id": pick.choice(("s", "t"))}
            name = {"filename": pick.choice(("a", "b", "user:a"))}
            part = pick.choice((BYTES, TEXT, REMOTE))
            verb = pick.choice(("save", "save", "load", "keys", "versions", "delete"))
            version = pick.choice((None, 0, 1, 7))
            if verb == "save":
                log.append(await service.save_artifact(**where, **name, artifact=part))
            elif verb == "load":
                log.append(await service.load_artifact(**where, **name, version=version))
            elif verb == "keys":
                log.append(await service.list_artifact_keys(**where))
            elif verb == "versions":
                log.append(await service.list_versions(**where, **name))
            else:
                log.append(await service.delete_artifact(**where, **name))
        return log

    async def work(store: Any) -> None:
        ours = await program(LedgerArtifactService(store))
        assert ours == await program(InMemoryArtifactService())

    on(store_url, colour, work)
