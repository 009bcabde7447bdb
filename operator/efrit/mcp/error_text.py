"""Errors as the text a model reads: what happened, then which tool or person can help. Pure."""

from __future__ import annotations

import re

from pydantic import ValidationError

import efrit.backend.errors as errors
from efrit.errors import EfritError

_ADVICE: tuple[tuple[type[EfritError], str], ...] = (
    (errors.InstanceNotFound, "efrit_list_instances lists the instances; efrit_start_instance creates one."),
    (
        errors.RequestNotFound,
        "Finished requests are deleted after a while. Check that the id is the one efrit_submit returned.",
    ),
    (errors.PlanNotFound, "efrit_list_plans lists the plans."),
    (errors.PoolNotFound, "efrit_list_pools lists the pools."),
    (errors.ClaimNotFound, "efrit_list_claims lists the claims."),
    (errors.NoInstance, "efrit_list_instances lists the instances; efrit_start_instance starts one."),
    (errors.NotFinished, "efrit_wait waits until it is final."),
    (errors.Conflict, "Use another idempotency_key for other work."),
    (errors.Forbidden, "Ask an administrator of the cluster for this permission."),
    (errors.NotReady, "Try again later."),
)


def error_text(error: EfritError) -> str:
    """Return the message of the error, then its own advice or ours if it has none."""
    advice = getattr(error, "advice", "") or next((text for kind, text in _ADVICE if isinstance(error, kind)), "")
    return " ".join(
        part for part in (for_model(sentence(error.message)), _begun(for_model(sentence(advice)))) if part
    )


_FIRST_WORD = re.compile(r"(?!efrit\b|kubectl\b)[a-z]+(?=[ ,:])")


def _begun(advice: str) -> str:
    """Return the advice with a capital at its beginning, unless that is the name of a tool or a program."""
    return advice[:1].upper() + advice[1:] if _FIRST_WORD.match(advice) else advice


_COMMANDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), tool)
    for pattern, tool in (
        (r"`?efrit start (?:NAME|([\w.-]+\w))`?", r"efrit_start_instance"),
        (r"`?efrit restart(?: ([\w.-]+\w))?`?", r"efrit_stop_instance, then efrit_start_instance"),
        (r"`?efrit stop ([\w.-]+\w)`?", r"efrit_stop_instance"),
        (r"`?efrit instances`?", "efrit_list_instances"),
        (r"`?efrit pools`?", "efrit_list_pools"),
        (r"`?efrit claims`?", "efrit_list_claims"),
        (r"`?efrit release ([\w.-]+\w)`?", r"efrit_release_claim with claim_id \1"),
        (r"`?efrit wait ([\w.-]+\w)`?", r"efrit_wait with request_id \1"),
        (r": see `efrit requests`", ""),
        (r"see `efrit requests`", "check the request_id"),
        (r"check the context \(`kubectl cluster-info`\)", "ask the user to check the connection to the cluster"),
        (r"change its spec with kubectl", "ask the user to change its spec"),
        (r"`?efrit requests(?: -i [\w.-]+)?`?", "efrit_get_request with a request_id you know"),
        (r"`?efrit plan show ([\w.-]+\w)`?", r"efrit_get_plan with plan_id \1"),
        (r"`?efrit plan list`?", "efrit_list_plans"),
        (r"`?efrit plan watch ([\w.-]+\w)`?", r"efrit_wait_plan with plan_id \1"),
        (r"`?efrit plan resume ([\w.-]+\w)`?", r"efrit_change_plan with plan_id \1 and change resume"),
        (r"run `?efrit doctor`?", "ask the user to run the command efrit doctor"),
        (r"with --instance, or \*", "as instance_id, or *"),
    )
)
"""A remedy on the command line -> the same with tools."""


def for_model(text: str) -> str:
    """Return a message with remedies a model has: tools in place of commands."""
    for pattern, tool in _COMMANDS:
        text = pattern.sub(tool, text)
    return text


def argument_error_text(error: ValidationError) -> str:
    """Return which arguments are wrong, and how."""
    problems = [
        f"{'.'.join(str(key) for key in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in error.errors(include_url=False, include_context=False)[:5]
    ]
    return f"Wrong arguments: {'; '.join(problems)}. Correct them and call again."


def sentence(text: str) -> str:
    """Return the text with a full stop, unless it is empty or has an end."""
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
