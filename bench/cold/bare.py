"""The least: apsw and msgspec, typed messages."""

import sys
import time


def main(path: str, session: str) -> None:
    start = time.perf_counter()
    from typing import Any

    import apsw
    import msgspec

    class Text(msgspec.Struct, tag="text", tag_field="type"):
        text: str

    class ToolCall(msgspec.Struct, tag="tool-call", tag_field="type"):
        id: str
        name: str
        arguments: dict[str, Any]

    class ToolResult(msgspec.Struct, tag="tool-result", tag_field="type"):
        call_id: str
        content: str
        name: str

    Message = msgspec.defstruct(
        "Message", [("role", str), ("parts", list[Text | ToolCall | ToolResult])]
    )
    decode = msgspec.json.Decoder(Message).decode
    imported = time.perf_counter()
    connection = apsw.Connection(path)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    key = int(session) << 32
    statement = "select body from messages where key > ? and key < ? order by key desc limit 50"
    rows = connection.execute(statement, (key, key + (1 << 32)))
    found = [decode(body) for (body,) in rows]
    found.reverse()
    read = time.perf_counter()
    print((imported - start) * 1000, (read - imported) * 1000, len(found))


main(*sys.argv[1:])
