"""The last look at the claims of an instance before its pod starts: the watch may tell of a deletion later."""

from __future__ import annotations

from efrit.controller.act.kube import Kube
from efrit.controller.act.sink import Sink
from efrit.controller.decide.actions import ConfirmClaims
from efrit.errors import ApiNotFound


async def confirm_claims(kube: Kube, sink: Sink, action: ConfirmClaims) -> bool:
    """Return whether all claims are there and none is being deleted; the sink learns of each. Raises ApiError."""
    namespace, confirmed = action.instance[0], True
    for name in action.names:
        try:
            claim = await kube.get("v1", "PersistentVolumeClaim", namespace, name)
        except ApiNotFound:
            sink.claim_gone(action.instance, name)
            confirmed = False
            continue
        sink.observe_claim(claim)
        confirmed = confirmed and claim["metadata"].get("deletionTimestamp") is None
    return confirmed
