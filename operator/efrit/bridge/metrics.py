"""What Prometheus sees of one bridge."""

from efrit.bridge.exposition import Counter, Gauge, Histogram, Metric
from efrit.protocol import RequestState, RequestView, Stats, Usage, kind_label
from efrit.protocol.enums import FINAL_REASONS

DIRECTIONS = ("input", "output", "cache_read", "cache_write")
"""Of tokens, as `Usage` counts them."""
_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """Counters and histograms are fed as things happen, gauges from `Stats` when somebody asks."""

    def __init__(self) -> None:
        self._requests = Gauge("efrit_queue_requests", "Requests in the queue now.", ["state"])
        self._processed = Counter("efrit_queue_processed_total", "Answers seen by this bridge.", ["reason"])
        self._execution = Histogram("efrit_queue_execution_seconds", "How long requests ran.", _SECONDS)
        self._wait = Histogram("efrit_queue_wait_seconds", "How long requests waited before they ran.", _SECONDS)
        self._free_bytes = Gauge("efrit_queue_volume_free_bytes", "Bytes free on the queue's volume.")
        self._free_inodes = Gauge("efrit_queue_volume_free_inodes", "Inodes free on the queue's volume.")
        self._up = Gauge("efrit_emacs_up", "1 while Emacs runs and responds.")
        self._restarts = Counter("efrit_emacs_restarts_total", "Starts of Emacs after the first one seen.")
        self._interrupts = Counter("efrit_emacs_interrupts_total", "Signals sent to a request's Emacs.", ["signal"])
        self._sessions = Gauge("efrit_emacs_sessions", "Chats and commands under way.")
        self._tokens = Counter("efrit_model_tokens_total", "Tokens of answered chats and commands.", ["direction"])
        self._calls = Counter("efrit_model_calls_total", "Turns of the model in answered chats and commands.")
        self._errors = Counter("efrit_model_errors_total", "Calls to the model that failed.", ["kind"])
        for direction in DIRECTIONS:
            self._tokens.add(0, direction)
        for reason in FINAL_REASONS:
            self._processed.add(0, reason.value)
        for name in ("SIGUSR2", "SIGKILL"):
            self._interrupts.add(0, name)

    def changed(self, view: RequestView) -> None:
        """Count an answer; other changes of state are seen in the gauges."""
        response = view.response
        if view.state is not RequestState.ANSWERED or response is None:
            return
        self._processed.add(1, response.reason.value)
        if response.started is not None:
            self._execution.observe(response.execution_time)
            if view.queued_time is not None:
                self._wait.observe(max(0.0, (response.started - view.queued_time).total_seconds()))
        if response.usage is not None:
            self._count_usage(response.usage)

    def _count_usage(self, usage: Usage) -> None:
        for direction in DIRECTIONS:
            self._tokens.add(getattr(usage, f"{direction}_tokens"), direction)
        self._calls.add(usage.model_calls)
        for kind, count in usage.model_errors.items():
            self._errors.add(count, kind_label(kind))

    def restarted(self) -> None:
        """Count a start of Emacs."""
        self._restarts.add(1)

    def signalled(self, name: str) -> None:
        """Count a signal that was sent."""
        self._interrupts.add(1, name)

    def render(self, stats: Stats) -> bytes:
        """Return the text that Prometheus reads."""
        self._requests.set(stats.pending, "queued")
        self._requests.set(stats.processing, "running")
        self._requests.set(stats.unacknowledged, "answered")
        if stats.disk is not None:
            self._free_bytes.set(stats.disk.free_bytes)
            self._free_inodes.set(stats.disk.free_inodes)
        self._up.set(stats.emacs.responsive)
        self._sessions.set(stats.emacs.sessions)
        metrics = (metric for metric in vars(self).values() if isinstance(metric, Metric))
        return "".join(f"{line}\n" for metric in metrics for line in metric.lines()).encode()
