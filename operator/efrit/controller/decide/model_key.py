"""Whether chats and commands can ask their model, as far as the state of its key says: one word and one sentence.

Emacs alone reads the key. What it reports is one of a few fixed words.
"""

from __future__ import annotations

from efrit.api import ConditionStatus, EfritInstance, ModelReason
from efrit.api.instance_model import Model
from efrit.controller.decide.condition_state import ConditionState
from efrit.protocol.enums import FEWEST_KEY_CHARACTERS
from efrit.protocol.view import ModelKey, Stats

_PROBLEMS = {
    ModelKey.UNREADABLE: (ModelReason.KEY_UNREADABLE, "cannot be read by Emacs"),
    ModelKey.EMPTY: (ModelReason.KEY_EMPTY, "is empty"),
    ModelKey.INVALID: (ModelReason.KEY_INVALID, "has characters other than printable ASCII, or spaces"),
    ModelKey.TOO_SHORT: (
        ModelReason.KEY_TOO_SHORT,
        f"has fewer than {FEWEST_KEY_CHARACTERS} characters, which is too short for a key",
    ),
}


def model_health(stats: Stats | None, instance: EfritInstance) -> ConditionState | None:
    """Return whether the model's key can be used; Unknown while Emacs has not reported it, None without a model."""
    model = instance.spec.model
    if model is None:
        return None
    if stats is None or stats.emacs.model_key is None:
        return ConditionState(ConditionStatus.UNKNOWN, ModelReason.UNKNOWN, "Emacs has not read the model's key yet.")
    if stats.emacs.model_key not in _PROBLEMS:
        return ConditionState(ConditionStatus.TRUE, ModelReason.KEY_READ, "Emacs has read the model's key.")
    reason, problem = _PROBLEMS[stats.emacs.model_key]
    return ConditionState(ConditionStatus.FALSE, reason, f"{_key(model)} {problem}. {_remedy(model)}")


def _key(model: Model) -> str:
    ref = model.api_key_secret_ref
    return f"The model's key (Secret {ref.name}, key {ref.key})"


def _remedy(model: Model) -> str:
    return (
        f"Chats and commands fail with ModelError: put the API key into Secret {model.api_key_secret_ref.name}. "
        "Emacs reads it again, without a restart."
    )
