"""Which action fails for which request at present: what its status may have to say if that lasts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from efrit.controller.decide.views import ActionFailure, Key
from efrit.controller.watch.bridge_news import BridgeNews
from efrit.errors import ApiRefused, EfritError
from efrit.protocol import RequestView

MAX_SENTENCE_CHARS = 512
SENTENCE_KEPT = timedelta(seconds=10)
"""A failure whose code changes is reported anew at most this often: each report is a write of the status."""


class RequestFailures(BridgeNews):
    """The memory with the failing action of each request: one a request, which goes with its record."""

    def action_failed(self, request: Key, uid: str, action: str, error: EfritError, *, refused: bool = False) -> None:
        """Record that an action for a request failed; `refused` where repeating it as it is will not help."""
        entry = self._requests.get(request)
        if entry is None or entry.request.metadata.uid != uid:
            return
        now, known = self._clock(), entry.failure
        sentence = error.sentence if isinstance(error, ApiRefused) else error.message
        failure = ActionFailure(
            action, error.code, sentence[:MAX_SENTENCE_CHARS], sentence_time=now, first=now, last=now
        )
        if known is not None and known.action == action:
            if error.code == known.code or now - known.sentence_time < SENTENCE_KEPT:
                failure = replace(known, last=now)
            failure = replace(failure, first=known.first, refusals=known.refusals)
        entry.failure = replace(failure, refusals=failure.refusals + refused)
        if refused:
            # Nothing is raised: the work queue does not come back to it by itself.
            self._look_request(request)

    def result_stored(self, request: Key, uid: str) -> None:
        """Forget that the result of a request could not be stored."""
        entry = self._requests.get(request)
        if entry is not None and entry.request.metadata.uid == uid:
            entry.failure = None

    def _observe_view(self, instance: Key, view: RequestView) -> None:
        super()._observe_view(instance, view)
        key = self._keys.get(view.id)
        entry = self._requests.get(key) if key is not None else None
        if entry is None or entry.failure is None:
            return
        # A bridge that answers took the call; an answer without its text is still to be read.
        if entry.failure.action != "StoreResult" and not (view.state.final and view.response is None):
            entry.failure = None
