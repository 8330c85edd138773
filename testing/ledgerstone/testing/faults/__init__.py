"""Faults that a store must survive, and checks that notice when it did not.

    processes   children that can be killed, and what they said before they died
    histories   what was planned, acknowledged and granted, judged against what is stored
    victims     workloads for a child that is going to be killed
    kills       kill -9 at random moments, reopen, judge, go on with the next child
    races       several processes that do the same thing at the same moment
    commits     turns made by hand, whose ids are known before they are sent
    crowds      32 writers with the same turn or revision: threads, tasks, processes
    stale       a holder that is stopped past its lease and wakes up as nobody
    lease_load  random lease calls of many workers, written down; linear: could they be true?
    clocks      leases while the clocks jump; expiry: the moment a lease ends, and strangers
    fences      fences over restart, purge and re-creation
    queue_load      producers and workers on one queue; queue_crew: as processes that are killed
    queue_accounts  the books of it: nothing lost, done twice, held by two or out of order
    queue_calls     random queue calls, written down; queue_linear: could they be true?
    queue_clocks    queues while the clocks jump
    queue_poison    items that fail for ever, or kill their worker
    queue_sabotage  backends that forget a rule of the queue
    backups     copies made under load: a prefix of what was acknowledged
    scans       page by page while others append, delete and branch; also kept_scans
    handles     several handles on one place in one process, others come and go
    cancels     a coroutine that is cancelled at each of its awaits in turn
    sabotage    backends that lie: each harness has to find them out; also sabotage_rules
    disk        a file layer for SQLite: fails the n-th operation, forgets what was not flushed
    survivors   what is left of a file after a power cut, drawn from a seed
    scripts     a fixed play of commands with something of everything
    told        what was said about each command, judged by the model
    storage     the play with an I/O error, a full disk or a power cut at each operation
    flushes     one flush before each answer, and no answer after a flush that failed
    statements  kill -9 between any two statements
    simulation  whole lives drawn from one number, repeated to the byte
    specimen    a store with something of everything, and every question about it
    bitflips    one wrong bit in what is stored: found or harmless
    values      values that encodings lose, through value_places: everything that takes data
    stepping    threads that take turns call by call, in an order drawn from a seed
    collection  bytes that are collected while others put, name and attach them
    payloads    texts that do harm where they become a query, a path or a line of a log
    postgres_cuts       a wire that is cut before, while and after a request is carried out
    postgres_silence    a server that does not answer any more: every call comes back in time
    postgres_load       callers that go on while their server is killed, restarted or replaced
    postgres_crowd      64 sessions in each of several processes: no errors, no deadlocks
    postgres_pooler     a pooler in transaction mode: no two transactions on one connection

For another backend: give `kill_often` and `Race` a function that opens it, importable in a child
process (`functools.partial(open_mine, path)`), and assert that the verdict names no violation.
"""
