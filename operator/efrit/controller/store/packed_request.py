"""An EfritRequest as the store keeps it: a few facts to compare, the rest as JSON without what may be large.

Thousands may be open at a time. As a model each would take eight kilobytes and its content; packed it takes one.
Those seen last stay models as well: most are decided about at once, and are over before they need be packed.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from efrit.api import EfritRequest
from efrit.controller.decide.handover import is_marked
from efrit.controller.decide.preemption import is_preemptible, preempted_by
from efrit.controller.model.keys import Key, pool_key, target_of
from efrit.controller.store.backlog import POINT_OF_PRIORITY, Rank, rank

CONTENT_LEFT_OUT = "(spec.content is left out)"
"""Stands for a content that is not at hand; a snapshot says so (`content_bytes`), and it is never sent anywhere."""

MAX_MODELS = 256
"""Versions of requests that are kept as models."""

_METADATA: dict[str, object] = {"labels": {}, "annotations": {}, "owner_references": ()}
"""What no decision about a request reads; kubectl keeps a copy of the whole object in an annotation."""
_ANSWER = dict.fromkeys(("result", "output", "messages", "error", "context", "usage", "progress"))
"""What is not read once it is final."""


@dataclass(slots=True)
class PackedRequest:
    """One version of a request: what it says never changes, only how it is kept."""

    key: Key
    uid: str
    version: str
    target: Key | None
    """The instance it is bound to."""
    final: bool
    marked: bool
    """Whether its status says that a queue may have it."""
    cancelled: bool
    """Whether its user wants it stopped."""
    run_id: str
    """Id of the work on the queue of an instance."""
    pool: Key | None
    """The pool that it names."""
    rank: Rank
    priority: int
    preemptible: bool
    """Whether it may be interrupted for a request of higher priority, once it runs."""
    preempted_by: str | None
    """UID of the request for which it is being interrupted."""
    content_bytes: int
    """Size of spec.content in UTF-8."""
    _model: EfritRequest | None
    """None once it is packed."""
    _json: bytes = b""

    @classmethod
    def of(cls, request: EfritRequest) -> PackedRequest:
        """Return what is kept of a request, a model until it is packed."""
        small = request.model_copy(
            update={
                "metadata": request.metadata.model_copy(update=_METADATA),
                "spec": request.spec.model_copy(update={"content": CONTENT_LEFT_OUT}),
                "status": request.status.model_copy(update=_ANSWER) if request.final else request.status,
            }
        )
        return cls(
            key=request.key,
            uid=request.metadata.uid,
            version=request.metadata.resource_version,
            target=target_of(request),
            final=request.final,
            marked=is_marked(request),
            cancelled=request.spec.cancel,
            run_id=request.run_id,
            pool=pool_key(request),
            rank=rank(request),
            priority=request.spec.priority,
            preemptible=is_preemptible(request),
            preempted_by=preempted_by(request),
            content_bytes=len(request.spec.content.encode("utf-8", "surrogatepass")),
            _model=small,
        )

    def pack(self) -> None:
        """Keep it as JSON from now on."""
        if self._model is not None:
            self._json = self._model.model_dump_json(by_alias=True, exclude_defaults=True).encode()
            self._model = None

    @property
    def created(self) -> datetime:
        """When it was created, as its rank says."""
        return self.rank[0] + self.priority * POINT_OF_PRIORITY

    def unpack(self, content: str | None = None) -> EfritRequest:
        """Return the request, with its content where that is given."""
        request = self._model or EfritRequest.model_validate_json(self._json)
        if content is None:
            return request
        return request.model_copy(update={"spec": request.spec.model_copy(update={"content": content})})


class RecentRequests:
    """The versions of requests that were seen last, kept as models: the oldest one is packed for the next."""

    def __init__(self, limit: int = MAX_MODELS) -> None:
        self._limit = limit
        self._recent: OrderedDict[int, PackedRequest] = OrderedDict()
        """By identity."""

    def __len__(self) -> int:
        return len(self._recent)

    def keep(self, request: EfritRequest) -> PackedRequest:
        """Return what is kept of a request."""
        packed = PackedRequest.of(request)
        self._recent[id(packed)] = packed
        if len(self._recent) > self._limit:  # gate: few-models
            self._recent.popitem(last=False)[1].pack()
        return packed

    def forget(self, packed: PackedRequest) -> None:
        """Take in that nobody keeps a version any more: a later one is known, or nothing is left to do with it."""
        self._recent.pop(id(packed), None)
