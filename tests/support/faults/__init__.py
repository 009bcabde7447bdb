"""The fault harness: seeded schedules of a workload and faults on real processes, and checkers of their histories.

schedule, workload, generators   what happens in a run, as data that a seed decides
client, nemesis, light, node     who carries it out: the users, and each tier's nemesis with its cluster
api_proxy, file_shim             how calls of the API and calls on files fail
recorder, availability, collect  who observes a run, independently of the operator
history                          what was observed
checker, *_invariants            the promises, as pure functions of a history
timeline, log_defects            a run as a person reads it; what our programs must not log
base_run, run                    the interface of a run; one run from its beginning to its verdict
"""
