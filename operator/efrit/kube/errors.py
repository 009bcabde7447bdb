"""Reads an API server's refusal, a Status object, into the exception tree of `efrit.errors`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from efrit.errors import (
    ApiConflict,
    ApiError,
    ApiExists,
    ApiExpired,
    ApiFailed,
    ApiForbidden,
    ApiNamespaceTerminating,
    ApiNotFound,
    ApiNotServed,
    ApiRefused,
    ApiTooLarge,
    ApiUnauthorized,
    ApiUnavailable,
)
from efrit.kube.retry_after import retry_after_seconds

UNREADABLE = ("failed to create typed patch object", "failed to convert new object")


def api_error(method: str, path: str, status: int, data: bytes, headers: Mapping[str, str] | None = None) -> ApiError:
    """Return the error that an answer with a status of 400 or more stands for."""
    reason, message, details = _read_status(data)
    text = f"{method} {path}: {status}: {message}"
    if _is_namespace_terminating(method, status, details):
        return ApiNamespaceTerminating(text, message, status=status)
    if status == 404:
        return (ApiNotFound if _is_status(data) else ApiNotServed)(text, message, status=status)
    if status == 409:
        # A create may also collide with somebody who counts it (a ResourceQuota), and then made nothing.
        # gate: exists-or-conflict
        return (ApiExists if reason == "AlreadyExists" else ApiConflict)(text, message, status=status)
    # etcd's limit comes as a 500 (its own bytes, JSON with every < as six of them), the API server's as a 413.
    if status == 413 or (status == 500 and "request is too large" in message):
        return ApiTooLarge(text, message, status=status)
    if status == 403:
        return ApiForbidden(text, message, status=status)
    # What server-side apply cannot read comes as a 500 (kubernetes/kubernetes#139253), however often it is asked.
    if status in (400, 415, 422) or (status == 500 and message.startswith(UNREADABLE)):
        return ApiRefused(text, message, status=status)
    headers = headers or {}
    pause = retry_after_seconds(headers.get("Retry-After"), headers.get("Date"))
    pause = pause or retry_after_seconds(details.get("retryAfterSeconds"))
    unavailable = {401: ApiUnauthorized, 410: ApiExpired, 500: ApiFailed}.get(status, ApiUnavailable)
    return unavailable(text, message, status=status, retry_after=pause)


def _read_status(data: bytes) -> tuple[str, str, Mapping[str, Any]]:
    """Return reason, message and details; of an answer that is not a Status object, the beginning of its text."""
    try:
        body = json.loads(data)
        details = body.get("details")
        return str(body.get("reason")), str(body.get("message") or body), details if isinstance(details, dict) else {}
    except (ValueError, AttributeError, RecursionError):
        return "", data[:500].decode("utf-8", "replace"), {}


def _is_status(data: bytes) -> bool:
    """Return whether an answer is the API server's own: what is at no path of its, or a proxy's, is none."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and body.get("kind") == "Status"


def _is_namespace_terminating(method: str, status: int, details: Mapping[str, Any]) -> bool:
    """Return whether a create was refused because its namespace is being deleted, or is gone."""
    if status == 403:
        causes = details.get("causes") or ()
        return any(isinstance(cause, Mapping) and cause.get("reason") == "NamespaceTerminating" for cause in causes)
    return status == 404 and method != "GET" and details.get("kind") == "namespaces"
