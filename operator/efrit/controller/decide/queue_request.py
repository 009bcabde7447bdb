"""From a custom resource to the wire: the request that an EfritRequest becomes on its instance's queue."""

from __future__ import annotations

from efrit.api import EfritInstance, EfritRequest
from efrit.controller.model import names
from efrit.protocol import Request, RequestOptions, RetryPolicy, SessionOption, request_id
from efrit.protocol.resource_case import to_resource


def attempts_on_queue(request: EfritRequest, instance: EfritInstance) -> int:
    """Return how often the queue that gets the request may begin it.

    A queue that is lost cannot tell how often it did: it counts as if it had used up what it was given. So the first
    ephemeral queue is given one less, which the second has if the first is lost (status.attempt says that it was).
    """
    spec = request.spec
    if spec.retry_policy != RetryPolicy.IF_INTERRUPTED:
        return 1
    left = spec.max_attempts - request.attempts_before
    if not instance.spec.queue.ephemeral:
        return max(1, left)
    return max(1, left - 1) if is_attempt_kept(request, instance) else 1


def is_attempt_kept(request: EfritRequest, instance: EfritInstance) -> bool:
    """Return whether the queue of the instance is given one attempt less than there are, for the case of its loss."""
    spec = request.spec
    if spec.retry_policy != RetryPolicy.IF_INTERRUPTED or not instance.spec.queue.ephemeral:
        return False
    # One that is left alone cannot be kept: the queue that gets the request has it.
    has_more = spec.max_attempts - request.attempts_before > 1  # gate: last-attempt
    return has_more and (request.status.attempt or 1) < spec.max_attempts


def excess(request: EfritRequest, instance: EfritInstance) -> str | None:
    """Return the sentence about the first value of the request that exceeds a limit of the instance, or None."""
    spec, limits = request.spec, instance.spec.limits
    limited: list[tuple[str, int | None, str, int | None]] = [
        ("timeoutSeconds", spec.timeout_seconds, "maxTimeoutSeconds", limits.max_timeout_seconds)
    ]
    if spec.budget is not None:
        # The limits of an instance have the names of a budget's parts.
        limits_by_field, parts = limits.to_wire(), to_resource(spec.budget)
        limited += [(f"budget.{field}", value, field, limits_by_field.get(field)) for field, value in parts.items()]
    for field, value, name, limit in limited:
        if value is not None and limit is not None and value > limit:
            return (
                f"spec.{field} is {value}, EfritInstance {instance.metadata.name} allows at most {limit} "
                f"(spec.limits.{name}): lower it, leave it out, or raise the limit."
            )
    return None


def _session(request: EfritRequest) -> SessionOption | None:
    """Return the session to continue; none where the request was given to an instance that does not have it."""
    session = request.spec.session
    if session is None or request.status.session_left == session.id:  # gate: session-left
        return None
    return SessionOption(id=session.id)


def queue_request(request: EfritRequest, instance: EfritInstance) -> Request:
    """Return the file that is written to the queue. Its id is that of the run: submitting twice is one submission."""
    spec, limits = request.spec, instance.spec.limits
    kind = spec.type
    default_timeout = limits.command_timeout_seconds if kind.is_session else limits.request_timeout_seconds
    return Request(
        id=request_id(request.run_id),
        type=kind,
        content=spec.content,
        options=RequestOptions(
            timeout=spec.timeout_seconds or min(default_timeout, limits.max_timeout_seconds),
            return_context=spec.return_context,
            priority=spec.priority,
            retry=spec.retry_policy,
            max_attempts=attempts_on_queue(request, instance),
            max_result_bytes=limits.max_result_bytes,
            budget=spec.budget,
            session=_session(request),
        ),
        timestamp=request.metadata.creation_timestamp,
        instance_id=names.instance_id(instance),
        metadata={"name": request.metadata.name, "namespace": request.metadata.namespace},
    )
