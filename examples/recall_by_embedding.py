"""What an agent learned in one conversation is found by meaning in the next.

The turn that hears something remembers it, with a vector, in the same commit. Any model that turns
text into numbers will do; this one is used when it is installed, and otherwise letters are counted,
which is enough to find what is worded alike.
"""

from __future__ import annotations

import hashlib
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from ledgerstone import InvalidValue, Store

Embed = Callable[[str], list[float]]
ADA, BOB = ("users", "ada"), ("users", "bob")
TOLD = {
    "transport": "I take the train whenever there is one, I never fly.",
    "food": "I am a vegan and allergic to nuts.",
    "hotel": "In a hotel I need a quiet room, far away from the lift.",
}


def embedder() -> tuple[str, Embed]:
    """The name of a model, and the model. The name is part of what is stored: vectors of two
    models are never compared.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        from sentence_transformers import SentenceTransformer

        model = SentenceTransformer("all-MiniLM-L6-v2")
    except (ImportError, OSError):
        return "letters-256", by_letters
    return "all-MiniLM-L6-v2", lambda text: model.encode(text).tolist()


def by_letters(text: str, size: int = 256) -> list[float]:
    """Words and runs of four letters, each at a place that its hash names."""
    found = [0.0] * size
    for word in text.lower().replace(",", " ").replace(".", " ").split():
        pieces = [word, *(f" {word} "[n : n + 4] for n in range(len(word) - 1))]
        for piece in pieces:
            place = int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=4).digest())
            found[place % size] += len(piece) / math.sqrt(len(pieces))
    return found


def main(folder: Path) -> None:
    model, embed = embedder()
    with Store.open(folder / "agent.db") as store:
        for key, said in TOLD.items():
            with store.turns.begin("first talk", create=True) as turn:
                turn.user(said)
                turn.remember(ADA, key, {"said": said}, vector=embed(said), model=model)
                turn.assistant("I will remember that.")
        store.memories.put(
            BOB, "food", {"said": "I eat nuts"}, vector=embed("I eat nuts"), model=model
        )

        # Days later, in another process: the vectors are read once, then they stay in memory.
        for question in ("Is there a train to Bergen?", "Which room in the hotel?", "Any nuts?"):
            (best,) = store.memories.search(ADA, vector=embed(question), model=model, limit=1)
            print(f"{question} -> {best.key}: {best.value['said']}")

        store.memories.put(
            ADA, "seat", {"said": "aisle"}, vector=embed("seat"), model=model, ttl_s=3600
        )
        print(f"what is known of ada: {[one.key for one in store.memories.iter(ADA)]}")
        try:
            store.memories.put(ADA, "odd", 1, vector=[1.0, 2.0], model=model)
        except InvalidValue as error:
            print(f"another model's vector: {str(error)[:30]}...")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
