"""Ledgerstone, blocking."""

import sys
import time


def main(path: str, session: str) -> None:
    start = time.perf_counter()
    from ledgerstone import Store

    imported = time.perf_counter()
    store = Store.open(path)
    found = store.messages.last(session, 50)
    read = time.perf_counter()
    print((imported - start) * 1000, (read - imported) * 1000, len(found))
    store.close()


main(*sys.argv[1:])
