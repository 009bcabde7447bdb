"""Which objects of each kind are listed and watched: by a leader, and of some kinds by a process that stands by."""

from __future__ import annotations

from collections.abc import Mapping

from efrit.controller.model import names
from efrit.resources import (
    EXCLUSIVE_CLAIMS,
    INSTANCES,
    PLANS,
    PODS,
    POOLS,
    REQUESTS,
    STATEFULSETS,
    VOLUME_CLAIMS,
    Resource,
)

_CHILD = {"labelSelector": names.CHILD_SELECTOR}
_OPEN = {"fieldSelector": names.OPEN_SELECTOR}

SELECTORS: Mapping[Resource, Mapping[str, str]] = {
    INSTANCES: {},
    STATEFULSETS: _CHILD,
    VOLUME_CLAIMS: _CHILD,
    PODS: _CHILD,
    REQUESTS: _OPEN,
    PLANS: _OPEN,
    POOLS: {},
    EXCLUSIVE_CLAIMS: {"fieldSelector": names.UNENDED_SELECTOR},
}
