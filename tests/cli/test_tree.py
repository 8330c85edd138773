"""The drawing of a graph."""

from __future__ import annotations

import random
import re
from pathlib import Path

from ledgerstone import Store, user
from ledgerstone.cli.graph import Dot
from ledgerstone.cli.tree import draw
from tests.cli.conftest import SECRET, Cli

TIME = re.compile(r" \d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def drawn(cli: Cli, path: Path, session: str = "trip") -> list[str]:
    """The lines of the drawing, without times."""
    done = cli("tree", session, "--store", path)
    assert done.code == 0
    lines = (re.sub(r"\s+", " ", TIME.sub("", line)).strip() for line in done.out.splitlines())
    return list(lines)


def test_a_branched_session(cli: Cli, store: Path) -> None:
    assert drawn(cli, store) == [
        "trip: revision 5, 5 nodes, 2 tombstones, 2 branches",
        "● 1 user m1",
        "● 2 assistant m2",
        "├─● 3 user c3 ◀ cheap",
        "│ ✗ 4 user c4 deleted",
        "● 3 tool m3",
        "├─✗ 4 assistant old4 deleted",
        "● 4 assistant m4 ◀ main",
    ]


def test_as_json(cli: Cli, store: Path) -> None:
    found = cli("tree", "trip", "--store", store, "--json").json
    assert found["leaves"] == [
        {"branch": "main", "node": "m4"},
        {"branch": "cheap", "node": "c3"},
    ]
    nodes = {node["id"]: node for node in found["nodes"]}
    assert list(nodes) == ["m1", "m2", "m3", "old4", "c3", "c4", "m4"]
    assert nodes["c3"]["parent"] == "m2"
    assert [name for name, node in nodes.items() if "deleted_us" in node] == ["old4", "c4"]
    assert "body" not in nodes["m1"]
    assert SECRET not in str(found)


def test_a_straight_conversation_is_one_column(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "straight.db"
    with Store.open(path) as opened:
        opened.messages.append("s", *(user(str(n), id=f"m{n}") for n in range(1, 4)), create=True)
    assert drawn(cli, path, "s")[1:] == ["● 1 user m1", "● 2 user m2", "● 3 user m3 ◀ main"]


def test_a_session_without_a_commit(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    with Store.open(path) as opened:
        opened.sessions.create(id="s")
    assert drawn(cli, path, "s")[1:] == ["nothing was committed yet"]


def test_a_cleared_session_starts_again_beside_the_old_one(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "cleared.db"
    with Store.open(path) as opened:
        opened.messages.append("s", user("1", id="old1"), user("2", id="old2"), create=True)
        opened.messages.clear("s")
        assert "main stands before the first node" in " ".join(drawn(cli, path, "s"))
        opened.messages.append("s", user("3", id="new1"))
    assert drawn(cli, path, "s")[1:] == [
        "├─✗ 1 user old1 deleted",
        "│ ✗ 2 user old2 deleted",
        "● 1 user new1 ◀ main",
    ]


def test_nodes_of_other_kinds_show_kind_and_label(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "kinds.db"
    with Store.open(path) as opened, opened.turns.begin("s", create=True) as turn:
        turn.user("hello", id="m1")
        turn.node("plugin", {"secret": SECRET}, id="n1", label="weather")
    assert drawn(cli, path, "s")[1:] == ["● 1 user m1", "● 2 plugin weather n1 ◀ main"]


def test_below_a_tombstone_that_is_no_message(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "gap.db"
    with Store.open(path) as opened:
        with opened.turns.begin("s", create=True) as turn:
            turn.user("1", id="m1")
            turn.node("plugin", {}, id="n1")
            turn.user("2", id="m2")
        opened.messages.replace("s", [opened.messages.history("s")[0], user("3", id="m3")])
    lines = drawn(cli, path, "s")[1:]
    assert lines == ["● 1 user m1", "├─✗ 3 user m2 deleted", "● 2 user m3 ◀ main"]


def test_what_steers_a_terminal_is_escaped(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    with Store.open(path) as opened:
        opened.messages.append("s\u202e", user("x", id="m\u202e1"), create=True)
    done = cli("tree", "s\u202e", "--store", path)
    assert "\u202e" not in done.out
    assert "m\\u202e1" in done.out


class TestDraw:
    """The lines alone."""

    def test_side_branches_come_before_the_trunk(self) -> None:
        dots = chain("a", "b", "c") + chain("x", "y", above="a") + chain("z", above="x")
        assert rails(dots, "c") == ["a", "├─x", "│ ├─y", "│ z", "b", "c"]

    def test_without_a_trunk_the_newest_goes_straight_on(self) -> None:
        assert rails(chain("a", "b") + chain("x", above="a"), None) == ["a", "├─b", "x"]

    def test_several_roots(self) -> None:
        assert rails(chain("a", "b") + chain("x"), "b") == ["├─x", "a", "b"]

    def test_a_parent_that_is_not_there_makes_a_root(self) -> None:
        assert rails(chain("a", above="nobody"), "a") == ["a"]

    def test_a_very_deep_graph_is_no_problem(self) -> None:
        dots: list[Dot] = []
        for n in range(3000):
            dots += chain(f"t{n}", above=f"t{n - 1}") + chain(f"s{n}", above=f"t{n - 1}")
        assert len(list(draw(dots, "t2999"))) == 6000

    def test_every_node_is_drawn_once(self, seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(50):
            dots = chain("n0")
            for n in range(1, rng.randrange(2, 40)):
                dots += chain(f"n{n}", above=f"n{rng.randrange(n)}")
            lines = [line.dot.id for line in draw(dots, rng.choice(dots).id)]
            assert sorted(lines) == sorted(dot.id for dot in dots)
            for dot in dots:
                assert dot.parent is None or lines.index(dot.parent) < lines.index(dot.id)


def chain(*names: str, above: str | None = None) -> list[Dot]:
    """Nodes one below the other."""
    made = []
    for name in names:
        made.append(Dot(id=name, parent=above, ord=0, seq=0, kind="message"))
        above = name
    return made


def rails(dots: list[Dot], trunk: str | None) -> list[str]:
    return [line.rails + line.dot.id for line in draw(dots, trunk)]
