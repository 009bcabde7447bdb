"""The controller's Prometheus metrics, in the default registry."""

from __future__ import annotations

import functools

from prometheus_client import Counter, Gauge, Histogram

RECONCILE_SECONDS = Histogram(
    "efrit_reconcile_seconds",
    "Time of one reconciliation of an object, actions included.",
    ["kind"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
# To look for the one of a kind takes longer than to observe it.
reconcile_seconds = functools.cache(RECONCILE_SECONDS.labels)
"""Returns the histogram of a kind of objects."""
RECONCILE_FAILURES = Counter(
    "efrit_reconcile_failures_total", "Reconciliations that failed and will be retried.", ["kind"]
)
STATUS_WRITES = Counter("efrit_status_writes_total", "Status patches the API server accepted.", ["kind"])
status_writes = functools.cache(STATUS_WRITES.labels)
"""Returns the counter of a kind of objects."""
REQUESTS_FINISHED = Counter("efrit_requests_finished_total", "Requests that became final.", ["reason"])
REQUEST_SECONDS = Histogram(
    "efrit_request_seconds",
    "Time from the creation of a request, which is recorded in whole seconds, to its final status.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)
MODEL_TOKENS = Counter(
    "efrit_request_model_tokens_total", "Tokens of chats and commands that became final.", ["direction"]
)
MODEL_CALLS = Counter(
    "efrit_request_model_calls_total", "Turns of the model in chats and commands that became final."
)
MODEL_ERRORS = Counter(
    "efrit_request_model_errors_total", "Failed calls to the model in chats and commands that became final.", ["kind"]
)
PLANS_FINISHED = Counter("efrit_plans_finished_total", "Plans that became final.", ["reason"])
OPEN_PLANS = Gauge("efrit_open_plans", "Known plans that are not final.")
OPEN_REQUESTS = Gauge("efrit_open_requests", "Known requests that are not final.")
INSTANCES = Gauge("efrit_instances", "Known instances.")
BRIDGES = Gauge("efrit_bridge_connections", "Bridges to which an event stream is open or wanted.")
BRIDGES_UNRESPONSIVE = Gauge(
    "efrit_bridges_unresponsive", "Connected bridges that do not answer calls, or send what cannot be read."
)
WORK_QUEUE_DEPTH = Gauge(
    "efrit_work_queue_depth",
    "Keys waiting for reconciliation: ready for a worker, in the background until no other key is ready, or "
    "parked until a bridge can be called.",
    ["lane"],
)
WORK_QUEUE_ACTIVE = Gauge("efrit_work_queue_active", "Keys being reconciled.")
WORK_QUEUE_OLDEST_ACTIVE_SECONDS = Gauge(
    "efrit_work_queue_oldest_active_seconds", "Time of the reconciliation under way that has taken longest."
)
WORK_QUEUE_NAMESPACES = Gauge("efrit_work_queue_namespaces", "Namespaces with keys waiting for reconciliation.")
NAMESPACE_SERVED = Gauge(
    "efrit_namespace_served",
    "1 while a namespace of watchNamespaces is listed and watched, 0 while the API server refuses that.",
    ["watched_namespace"],
)
LEADER = Gauge("efrit_leader", "1 while this process holds the lease.")
HELD_BYTES = Gauge(
    "efrit_held_bytes",
    "Bytes that the controller keeps in memory, by kind: contents of requests, answers, plans.",
    ["kind"],
)
RECORDS = Gauge("efrit_records", "Objects that the controller keeps a record of, by kind.", ["kind"])
BUDGET_WAITS = Counter(
    "efrit_memory_budget_waits_total",
    "How often an object waited, or was dropped and read again, because a memory budget was used up.",
    ["budget"],
)
