"""What Prometheus sees of one bridge. Own registry: nothing here is global."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from efrit.protocol import RequestState, Usage, kind_label
from efrit.protocol.enums import FINAL_REASONS
from efrit.protocol.token_counts import TOKEN_DIRECTIONS, tokens_of
from efrit.protocol.view import RequestView, Stats

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """Counters and histograms are fed as things happen, gauges from `Stats` when somebody asks."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._requests = Gauge("efrit_queue_requests", "Requests in the queue now.", ["state"], registry=registry)
        self._processed = Counter(
            "efrit_queue_processed", "Answers seen by this bridge.", ["reason"], registry=registry
        )
        self._execution = Histogram(
            "efrit_queue_execution_seconds", "How long requests ran.", buckets=_SECONDS, registry=registry
        )
        self._wait = Histogram(
            "efrit_queue_wait_seconds",
            "How long requests waited before they ran.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._free_bytes = Gauge(
            "efrit_queue_volume_free_bytes", "Bytes free on the queue's volume.", registry=registry
        )
        self._free_inodes = Gauge(
            "efrit_queue_volume_free_inodes", "Inodes free on the queue's volume.", registry=registry
        )
        self._up = Gauge("efrit_emacs_up", "1 while Emacs runs and responds.", registry=registry)
        self._restarts = Counter(
            "efrit_emacs_restarts", "Starts of Emacs after the first one seen.", registry=registry
        )
        self._interrupts = Counter(
            "efrit_emacs_interrupts", "Signals sent to a request's Emacs.", ["signal"], registry=registry
        )
        self._sessions = Gauge("efrit_emacs_sessions", "Chats and commands under way.", registry=registry)
        self._tokens = Counter(
            "efrit_model_tokens", "Tokens of answered chats and commands.", ["direction"], registry=registry
        )
        self._calls = Counter(
            "efrit_model_calls", "Turns of the model in answered chats and commands.", registry=registry
        )
        self._errors = Counter("efrit_model_errors", "Calls to the model that failed.", ["kind"], registry=registry)
        for direction in TOKEN_DIRECTIONS:
            self._tokens.labels(direction)
        for reason in FINAL_REASONS:
            self._processed.labels(reason.value)
        for name in ("SIGUSR2", "SIGKILL"):
            self._interrupts.labels(name)

    def changed(self, view: RequestView) -> None:
        """Count an answer; other changes of state are seen in the gauges."""
        response = view.response
        if view.state is not RequestState.ANSWERED or response is None:
            return
        self._processed.labels(response.reason.value).inc()
        if response.started is not None:
            self._execution.observe(response.execution_time)
            if view.queued_time is not None:
                self._wait.observe(max(0.0, (response.started - view.queued_time).total_seconds()))
        if response.usage is not None:
            self._count_usage(response.usage)

    def _count_usage(self, usage: Usage) -> None:
        for direction in TOKEN_DIRECTIONS:
            self._tokens.labels(direction).inc(tokens_of(usage, direction))
        self._calls.inc(usage.model_calls)
        for kind, count in usage.model_errors.items():
            self._errors.labels(kind_label(kind)).inc(count)

    def restarted(self) -> None:
        """Count a start of Emacs."""
        self._restarts.inc()

    def signalled(self, name: str) -> None:
        """Count a signal that was sent."""
        self._interrupts.labels(name).inc()

    def render(self, stats: Stats) -> bytes:
        """Return the text that Prometheus reads."""
        self._requests.labels("queued").set(stats.pending)
        self._requests.labels("running").set(stats.processing)
        self._requests.labels("answered").set(stats.unacknowledged)
        if stats.disk is not None:
            self._free_bytes.set(stats.disk.free_bytes)
            self._free_inodes.set(stats.disk.free_inodes)
        self._up.set(stats.emacs.responsive)
        self._sessions.set(stats.emacs.sessions)
        return generate_latest(self._registry)
