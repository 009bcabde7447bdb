"""decide/model_key.py: whether the key of the model can be used, as one word and one sentence."""

from __future__ import annotations

import pytest

from efrit.controller.decide.model_key import model_health
from efrit.protocol.view import ModelKey, Stats
from tests.support.factory import emacs, instance, stats

MODEL = {"model": {"name": "m", "apiKeySecretRef": {"name": "anthropic", "key": "token"}}}


def stats_with_key(key: ModelKey | None) -> Stats:
    return stats(emacs=emacs(model_key=key))


@pytest.mark.parametrize(
    ("figures", "status", "reason"),
    [
        (None, "Unknown", "Unknown"),
        (stats_with_key(None), "Unknown", "Unknown"),
        (stats_with_key(ModelKey.USABLE), "True", "KeyRead"),
        (stats_with_key(ModelKey.TOO_SHORT), "False", "KeyTooShort"),
        (stats_with_key(ModelKey.EMPTY), "False", "KeyEmpty"),
        (stats_with_key(ModelKey.INVALID), "False", "KeyInvalid"),
        (stats_with_key(ModelKey.UNREADABLE), "False", "KeyUnreadable"),
    ],
)
def test_what_emacs_finds_of_the_key_decides_the_word(figures: Stats | None, status: str, reason: str) -> None:
    health = model_health(figures, instance(spec=MODEL))

    assert health is not None
    assert (health.status.value, health.reason.value) == (status, reason)


def test_every_state_of_the_key_has_a_word_of_its_own() -> None:
    healths = [model_health(stats_with_key(key), instance(spec=MODEL)) for key in ModelKey]

    assert len({health.reason for health in healths if health is not None}) == len(ModelKey)


def test_an_instance_without_a_model_has_no_such_condition() -> None:
    assert model_health(stats_with_key(ModelKey.TOO_SHORT), instance()) is None


def test_the_sentence_says_which_key_is_too_short_and_what_to_change() -> None:
    health = model_health(stats_with_key(ModelKey.TOO_SHORT), instance(spec=MODEL))

    assert health is not None
    assert health.message == (
        "The model's key (Secret anthropic, key token) has fewer than 8 characters, which is too short for a key. "
        "Chats and commands fail with ModelError: put the API key into Secret anthropic. "
        "Emacs reads it again, without a restart."
    )
