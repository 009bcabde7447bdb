"""What went wrong, as the sentence a model reads: what happened, then what to do, in the words of the tools. Pure."""

from __future__ import annotations

from pydantic import ValidationError

from efrit.client import errors
from efrit.errors import EfritError

_ADVICE: tuple[tuple[type[EfritError], str], ...] = (
    (errors.InstanceNotFound, "efrit_list_instances names those there are; efrit_start_instance makes one."),
    (errors.RequestNotFound, "A finished request is kept for a time only; its id is what efrit_submit returned."),
    (errors.PlanNotFound, "efrit_list_plans names those there are."),
    (errors.NoInstance, "efrit_list_instances shows what there is; efrit_start_instance starts one."),
    (errors.NotFinished, "efrit_wait waits until it is final."),
    (errors.Conflict, "Use another idempotency_key for other work."),
    (errors.Forbidden, "Ask whoever keeps the cluster for the right to do this."),
    (errors.NotReady, "Try again later."),
)


def in_words(error: EfritError) -> str:
    """The error's own sentence and advice, or ours where it has none."""
    advice = getattr(error, "advice", "") or next((words for kind, words in _ADVICE if isinstance(error, kind)), "")
    return " ".join(part for part in (_ended(error.message), _ended(advice)) if part)


def wrong_arguments(error: ValidationError) -> str:
    """Which argument is wrong, and how."""
    problems = [
        f"{'.'.join(str(step) for step in each['loc']) or 'arguments'}: {each['msg']}"
        for each in error.errors(include_url=False, include_context=False)[:5]
    ]
    return f"Wrong arguments: {'; '.join(problems)}. Correct them and call again."


def _ended(text: str) -> str:
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."
