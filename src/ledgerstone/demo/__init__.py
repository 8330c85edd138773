"""The demo: an agent is killed in the middle of a turn, another one goes on, nothing is lost.

script    what is said: a scripted user, a scripted model, scripted tools
worker    one agent process: takes the session, goes on where the store says, reports
stage     starts the workers, kills the first one, revives it
audit     reads the store back and counts what was lost or doubled
screen    shows it, live in a terminal and plainly elsewhere
"""
