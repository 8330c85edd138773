"""Faults that a store must survive, and checks that notice when it did not.

    processes   children that can be killed, and what they said before they died
    histories   what was planned, acknowledged and granted, judged against what is stored
    victims     workloads for a child that is going to be killed
    kills       kill -9 at random moments, reopen, judge, go on with the next child
    races       several processes that do the same thing at the same moment
    cancels     a coroutine that is cancelled at each of its awaits in turn
    sabotage    backends that lie: each harness has to find them out

For another backend: give `kill_often` and `Race` a function that opens it, importable in a child
process (`functools.partial(open_mine, path)`), and assert that the verdict names no violation.
"""
