"""The lazy user: two lines keep a conversation, and a new process finds it again."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ledgerstone import Store, assistant, user


def main(folder: Path) -> None:
    with Store.open(folder / "agent.db") as store:
        store.messages.append("trip", user("Book Oslo"), assistant("The 9:40?"), create=True)
        store.messages.append("trip", {"role": "user", "content": "Yes, please"})

    with Store.open(folder / "agent.db") as store:
        for message in store.messages.last("trip", 20):
            print(f"{message.role}: {message.text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
