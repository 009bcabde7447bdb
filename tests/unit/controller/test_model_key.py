"""decide/model_key.py: whether the key of the model can be used, as one word and one sentence."""

from __future__ import annotations

import pytest

from efrit.controller.decide.model_key import model_health
from efrit.protocol import ModelKey, Stats
from tests.unit.controller.factory import emacs, instance, stats

MODEL = {"model": {"name": "m", "apiKeySecretRef": {"name": "anthropic", "key": "token"}}}


def told(key: ModelKey | None) -> Stats:
    return stats(emacs=emacs(model_key=key))


@pytest.mark.parametrize(
    ("figures", "status", "reason"),
    [
        (None, "Unknown", "Unknown"),
        (told(None), "Unknown", "Unknown"),
        (told(ModelKey.USABLE), "True", "KeyRead"),
        (told(ModelKey.TOO_SHORT), "False", "KeyTooShort"),
        (told(ModelKey.EMPTY), "False", "KeyEmpty"),
        (told(ModelKey.INVALID), "False", "KeyInvalid"),
        (told(ModelKey.UNREADABLE), "False", "KeyUnreadable"),
    ],
)
def test_what_emacs_finds_of_the_key_decides_the_word(figures: Stats | None, status: str, reason: str) -> None:
    found = model_health(figures, instance(spec=MODEL))

    assert found is not None
    assert (found.status.value, found.reason.value) == (status, reason)


def test_every_state_of_the_key_has_a_word_of_its_own() -> None:
    found = [model_health(told(key), instance(spec=MODEL)) for key in ModelKey]

    assert len({each.reason for each in found if each is not None}) == len(ModelKey)


def test_an_instance_without_a_model_has_no_such_condition() -> None:
    assert model_health(told(ModelKey.TOO_SHORT), instance()) is None


def test_the_sentence_says_which_key_is_too_short_and_what_to_change() -> None:
    found = model_health(told(ModelKey.TOO_SHORT), instance(spec=MODEL))

    assert found is not None
    assert found.message == (
        "The model's key (Secret anthropic, key token) has fewer than 8 characters, which is too short for a key. "
        "Chats and commands fail with ModelError: put the API key into Secret anthropic. "
        "Emacs reads it again, without a restart."
    )
