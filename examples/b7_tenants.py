"""A web application: one store per process, one light handle per request and tenant.

Shown without a web framework: `app` is a plain object and `handle` a request handler, as a
FastAPI dependency would have it. Opened with tenant=None, the root handle refuses data, so that
a forgotten for_tenant cannot write into somebody else's place.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ledgerstone import AsyncStore, LeaseHeld, Misuse, RevisionMoved, assistant, user


@dataclass
class App:
    store: AsyncStore


@dataclass
class Request:
    tenant: str
    session: str
    text: str


async def handle(app: App, request: Request) -> int:
    """The status code; what a caller can do about a conflict is told apart."""
    store = app.store.for_tenant(request.tenant)
    try:
        await store.messages.append(
            request.session, user(request.text), assistant("noted"), create=True
        )
    except RevisionMoved:
        return 409
    except LeaseHeld:
        return 423
    return 200


async def main(folder: Path) -> None:
    app = App(await AsyncStore.open(folder / "agent.db", tenant=None))
    requests = [Request(t, "inbox", f"hello from {t}") for t in ("acme", "globex", "acme")]
    codes = await asyncio.gather(*(handle(app, request) for request in requests))
    print(f"answers: {codes}")

    for tenant in await app.store.admin.tenants():
        store = app.store.for_tenant(tenant)
        said = [m.text for m in await store.messages.history("inbox") if m.role == "user"]
        print(f"{tenant}: {said}")

    worker = app.store.for_tenant("acme")
    async with worker.leases.hold("inbox"):
        print(f"while a worker holds the session: {await handle(app, requests[0])}")

    try:
        await app.store.messages.history("inbox")
    except Misuse as error:
        print(f"without a tenant: {error}")
    await app.store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
