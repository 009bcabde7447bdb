"""Who may read /metrics where that needs a token: asked of the API server, as Kubernetes' own components do.

A TokenReview says whose token it is, a SubjectAccessReview whether its user may `get` the path.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from efrit.errors import EfritError
from efrit.resources import ACCESS_REVIEWS, TOKEN_REVIEWS, Resource

log = logging.getLogger(__name__)

PATH = "/metrics"
KEPT_SECONDS = 60.0
"""How long an answer is believed: a token or a permission that is revoked is good for so long."""
MAX_KEPT = 64
MAX_REVIEWS = 4
LONGEST_TOKEN = 8_000
"""In bytes; aiohttp refuses a longer header by itself."""

Review = Callable[[Resource, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Creates a review and returns its status."""


class MetricsAccess:
    """Decides about bearer tokens. Tokens are remembered by their digests, and only those of known users."""

    def __init__(self, review: Review, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._review = review
        self._monotonic = monotonic
        self._kept: OrderedDict[bytes, tuple[int, float]] = OrderedDict()
        self._reviews = 0

    async def status(self, authorization: str) -> int:
        """Return 200 for a reader, 401 without a token of a user, 403 without the right, 503 where nobody can tell.

        authorization: the header of that name, empty where there is none.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not 0 < len(token) <= LONGEST_TOKEN or not token.isascii():
            return 401
        digest, now = hashlib.sha256(token.encode()).digest(), self._monotonic()
        status, until = self._kept.get(digest, (0, 0.0))
        if now < until:
            return status
        if self._reviews >= MAX_REVIEWS:
            # Whoever sends one wrong token after the other must not load the API server without bound.
            return 503
        self._reviews += 1
        try:
            status = await self._review_token(token)
        except EfritError as error:
            log.warning("access to %s cannot be checked: %s", PATH, error)
            return 503
        finally:
            self._reviews -= 1
        if status != 401:
            self._keep(digest, status)
        return status

    async def _review_token(self, token: str) -> int:
        review = await self._review(TOKEN_REVIEWS, {"token": token})
        user = review.get("user") or {}
        if review.get("authenticated") is not True or review.get("error") or not user.get("username"):
            return 401
        spec = {
            "user": user["username"],
            "uid": user.get("uid") or "",
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": PATH, "verb": "get"},
        }
        answer = await self._review(ACCESS_REVIEWS, spec)
        allowed = answer.get("allowed") is True and answer.get("denied") is not True  # gate: metrics-denied
        return 200 if allowed else 403

    def _keep(self, digest: bytes, status: int) -> None:
        self._kept.pop(digest, None)
        self._kept[digest] = status, self._monotonic() + KEPT_SECONDS
        if len(self._kept) > MAX_KEPT:  # gate: metrics-kept
            self._kept.popitem(last=False)
