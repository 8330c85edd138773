"""Every example runs as it stands and says what it promises to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

SAYS = {
    "approve_payment": [
        "the run is waiting: tool_permission",
        "in the inbox: Pay 120 EUR?",
        "ada approved 100 EUR; wake-ups queued: 1",
        "the bank pays 100 EUR to Nordic Rail",
        "pay: succeeded",
        "assistant: Paid.",
    ],
    "b0_lazy": ["user: Book Oslo", "assistant: The 9:40?", "user: Yes, please"],
    "b1_streaming": [
        "the writer died in the middle of its answer",
        "found after the crash: 'The fjord line leaves '",
        "assistant: The fjord line leaves at 9:40 from platform two.",
        "drafts left: 0",
    ],
    "b4_takeover": [
        "worker-2 has to wait: worker-1 holds the session",
        "worker-2 took over, fence 1 -> 2",
        "the zombie wakes up: session trip: fence 1 is stale, current is 2",
        "assistant: Booked the 9:40",
    ],
    "b5_branch": [
        "common up to Friday",
        "only cheap: 1 node, only fast: 1 node",
        "assistant: The 9:40 flight, 1 hour",
        "trip-by-bus goes its own way with 4 messages",
    ],
    "b7_tenants": [
        "answers: [200, 200, 200]",
        "acme: ['hello from acme', 'hello from acme']",
        "while a worker holds the session: 423",
        "without a tenant: this store has no tenant",
    ],
    "b8_notebook": [
        "blocking, inside a running loop: [<Message 1 user: 'Book Oslo'>]",
        "committed under a lease that would have expired: 2",
    ],
    "b9_serverless": [
        "one of two: committed as revision 2",
        "one of two: somebody was faster",
        "revision 3, replayed: True",
        "messages: 3",
    ],
    "cost_of_a_week": [
        "research stops on day 6: 8.40 USD are used",
        "2026-11-09   2.75 USD  ########################",
        "reviewer  large  1,540,000 tokens   6.30 USD",
        "the week: 19 calls, 15.93 USD",
        "inbox after a credit note: 1.12 USD in 8 records",
        "research has -0.40 USD left this month",
    ],
    "dead_letter": [
        "bob: buried 'nowhere' is no address",
        "dead letter of ann: ConnectionError: the mail server does not answer",
        "why does ann not move? dead_letters",
        "['sent to ann@down.example']",
        "dead letters left: 0",
    ],
    "long_conversation": [
        "turn 100: 514 tokens with compaction, 6640 without",
        "turn 300: 1880 tokens with compaction, 20300 without",
        "3 compactions; the newest: 200 messages",
        "sent: ['system', 'assistant', 'user', 'assistant'] ...",
        "stored: 667 messages, every word of them",
        "cut to 2000 tokens: 600 messages left out, 1991 tokens",
    ],
    "images_in_object_store": [
        "the same image twice is kept once: True",
        "assistant: I see 64x48 image/png.",
        "still there: 64x48 image/png",
        "collected: 1 image of 1284 bytes",
        "the unused one is gone: True",
        "after the purge: None",
    ],
    "recall_by_embedding": [
        "Is there a train to Bergen? -> transport: I take the train whenever there is one",
        "Which room in the hotel? -> hotel: In a hotel I need a quiet room",
        "Any nuts? -> food: I am a vegan and allergic to nuts.",
        "what is known of ada: ['food', 'hotel', 'seat', 'transport']",
        "another model's vector: invalid vector",
    ],
    "sub_agent": [
        "search is done, in a session of its own",
        "planner wakes up and reads: Oslo: the 9:40 train has seats",
        "2 pieces of work, runs: [('planner', 'done'), ('search', 'done')]",
        "assistant: Take the 9:40 train.",
    ],
    "two_workers": [
        "worker 1 ended with signal 9",
        "worker 2 took 'book the train', attempt 2",
        "['did book the train', 'did book the hotel']",
        "left in the queue: []",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SAYS))
def test_the_example_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for line in SAYS[name]:
        assert line in done.stdout
    assert list(tmp_path.iterdir()) == [], "an example cleans up after itself"


def test_every_example_is_tried() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAYS)
