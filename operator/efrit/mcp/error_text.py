"""Errors as the text a model reads: what happened, then which tool or person can help. Pure."""

from __future__ import annotations

from pydantic import ValidationError

from efrit.client import errors
from efrit.errors import EfritError

_ADVICE: tuple[tuple[type[EfritError], str], ...] = (
    (errors.InstanceNotFound, "efrit_list_instances lists the instances; efrit_start_instance creates one."),
    (
        errors.RequestNotFound,
        "Finished requests are deleted after a while. Check that the id is the one efrit_submit returned.",
    ),
    (errors.PlanNotFound, "efrit_list_plans lists the plans."),
    (errors.NoInstance, "efrit_list_instances lists the instances; efrit_start_instance starts one."),
    (errors.NotFinished, "efrit_wait waits until it is final."),
    (errors.Conflict, "Use another idempotency_key for other work."),
    (errors.Forbidden, "Ask an administrator of the cluster for this permission."),
    (errors.NotReady, "Try again later."),
)


def error_text(error: EfritError) -> str:
    """Return the message of the error, then its own advice or ours if it has none."""
    advice = getattr(error, "advice", "") or next((text for kind, text in _ADVICE if isinstance(error, kind)), "")
    return " ".join(part for part in (_sentence(error.message), _sentence(advice)) if part)


def argument_error_text(error: ValidationError) -> str:
    """Return which arguments are wrong, and how."""
    problems = [
        f"{'.'.join(str(key) for key in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_context=False)[:5]
    ]
    return f"Wrong arguments: {'; '.join(problems)}. Correct them and call again."


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
