"""A session as a runtime keeps it in memory: rebuilt from the head, refreshed, committed again."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.errors import InvalidValue, SchemaTooNew, SchemaTooOld
from ledgerstone.records.nodes import Node
from ledgerstone.records.sessions import Graph, Head
from ledgerstone.records.turns import HydratedCheckpoint
from ledgerstone.records.usage import UsageEntry

CHECKPOINT_SCHEMA = 1
STATE_SCHEMA = 1
INITIAL = "initial"


class Policy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a session is run; `session` and `max_turns` are the caller's own, the rest is stored."""

    session: str | None = None
    provider_id: str = ""
    model: Any = None
    max_turns: int | None = None


class GraphDelta(msgspec.Struct, frozen=True):
    """What a commit does to the graph: leave its nodes, add some, or swap all of them."""

    kind: Literal["unchanged", "append", "replace"]
    leaf: str | None = None
    nodes: list[Node] = []

    def apply(self, graph: Graph) -> Graph:
        """The graph after it."""
        if self.kind == "unchanged":
            return Graph(graph.nodes, self.leaf)
        if self.kind == "append":
            return Graph([*graph.nodes, *self.nodes], self.leaf)
        return Graph(list(self.nodes), self.leaf)


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """What `sessions.load` answers; `revision` None means: never committed."""

    session: str
    policy: Policy = Policy()
    config: Any = None
    frames: list[Any] = []
    current_frame: str = ""
    graph: Graph = Graph([], None)
    checkpoint_ref: str | None = None
    checkpoint: HydratedCheckpoint | None = None
    ledger: list[UsageEntry] = []
    revision: int | None = None
    replace_required: bool = False
    schema: int = STATE_SCHEMA

    @classmethod
    def from_head(
        cls, head: Head, graph: Graph, checkpoint: HydratedCheckpoint | None = None
    ) -> SessionState:
        """The state as the head says, with an initial frame when none was ever stored."""
        config = head.config if isinstance(head.config, dict) else {}
        policy = Policy(
            session=head.session,
            provider_id=str(config.get("provider_id", "")),
            model=config.get("model"),
        )
        frames, current = with_initial_frame(head.session, head.frames, head.current_frame, policy)
        return cls(
            session=head.session,
            policy=policy,
            config=head.config,
            frames=frames,
            current_frame=current,
            graph=graph,
            checkpoint_ref=head.checkpoint,
            checkpoint=checkpoint,
            ledger=head.ledger,
            revision=head.revision,
        )

    def refresh(self, fresh: SessionState | None) -> SessionState:
        """The fresh state under this one's session policy and turn limit; None changes nothing."""
        if fresh is None:
            return self
        mine = self.policy
        policy = replace(fresh.policy, session=mine.session, max_turns=mine.max_turns)
        return replace(fresh, policy=policy)

    def graph_delta(self) -> GraphDelta:
        """What committing it does: a full replace at first or when flagged, else nothing."""
        if self.replace_required or self.revision is None:
            return GraphDelta("replace", self.graph.leaf, self.graph.nodes)
        return GraphDelta("unchanged", self.graph.leaf)


def with_initial_frame(
    session: str, frames: list[Any], current: str, policy: Policy
) -> tuple[list[Any], str]:
    """Frames and the current one's id; never empty."""
    if not frames:
        frames = [_initial_frame(session, policy)]
    if not current:
        last = frames[-1]
        current = str(last.get("frame_id", "")) if isinstance(last, dict) else ""
    return frames, current


def check_schema(kind: str, actual: int, expected: int) -> None:
    """SchemaTooNew or SchemaTooOld unless a record has exactly the version this code knows."""
    if type(actual) is not int:
        raise InvalidValue("schema", f"an integer expected, got {actual!r:.40}")
    if actual > expected:
        raise SchemaTooNew(kind, actual, expected)
    if actual < expected:
        raise SchemaTooOld(kind, actual, expected)


def _initial_frame(session: str, policy: Policy) -> dict[str, Any]:
    return {
        "frame_id": ids.derive(INITIAL, session),
        "session_id": session,
        "status": "active",
        "reason": INITIAL,
        "assignment": {"policy": {"provider_id": policy.provider_id, "model": policy.model}},
    }
