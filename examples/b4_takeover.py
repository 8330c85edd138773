"""Two workers, one session: the second takes over from a dead one, and the zombie is fenced."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from ledgerstone import AsyncStore, Fenced, LeaseHeld, user


async def main(folder: Path) -> None:
    async with AsyncStore.open(folder / "agent.db") as store:
        await store.messages.append("trip", user("Book Oslo"), create=True)

        zombie = await store.leases.take("trip", owner="worker-1", ttl_s=0.3)
        assert zombie is not None
        late = store.turns.begin(zombie)
        late.assistant("I was too slow")
        try:
            async with store.leases.hold("trip", owner="worker-2"):
                pass
        except LeaseHeld as held:
            print(f"worker-2 has to wait: {held.owner} holds the session")

        # worker-1 is dead now: nobody renews its lease.
        async with store.leases.hold("trip", owner="worker-2", wait_s=5) as lease:
            print(f"worker-2 took over, fence {zombie.fence} -> {lease.fence}")
            found = await store.sessions.recovery("trip")
            assert found is not None
            print(f"it finds revision {found.revision} and {len(found.drafts)} drafts")
            async with store.turns.begin(lease) as turn:
                turn.assistant("Booked the 9:40")
            try:
                await late.commit()
            except Fenced as error:
                print(f"the zombie wakes up: {error}")

        for message in await store.messages.history("trip"):
            print(f"{message.role}: {message.text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
