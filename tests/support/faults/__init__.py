"""The fault harness: seeded schedules of work and faults on real processes, and the checkers of what was seen.

schedule, workload, generators   what happens in a run, as data that a seed decides
client, light, node              who carries it out: the users, and the nemesis of each tier with its cluster
api_proxy, file_shim             how calls of the API and calls on files fail
recorder, availability, collect  who observes a run, beside the operator
history                          what was observed
*_invariants                     the promises, as pure functions of a history
timeline, log_defects            a run as a person reads it; what the logs of our programs must not say
run                              one run from its beginning to its verdict
"""
