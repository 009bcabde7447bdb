"""What `efrit doctor` says of the key of the model's API."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from efrit.client.interface import Finding
from efrit.client.local.doctor import examine
from efrit.client.local.model_probe import FEWEST_KEY_CHARACTERS
from efrit.client.local.settings import LocalSettings

SECRET = Path(__file__).parents[3] / "images/emacs/lisp/efrit-secret.el"


def model_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes) -> Finding:
    """Return what is said of a model whose key file holds `key`."""
    file = tmp_path / "key"
    file.write_bytes(key)
    monkeypatch.setenv("EFRIT_MODEL_NAME", "some-model")
    monkeypatch.setenv("EFRIT_MODEL_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("EFRIT_MODEL_API_KEY_FILE", str(file))
    settings = LocalSettings(tmp_path / "none.toml")
    return next(finding for finding in examine(settings) if finding.subject == "model")


@pytest.mark.parametrize("key", [b"", b"x", b"test\n", b"sk-1234\r\n"])
def test_a_key_that_emacs_refuses_for_its_length_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: bytes
) -> None:
    finding = model_finding(tmp_path, monkeypatch, key)
    assert not finding.ok
    assert finding.detail == f"the key in {tmp_path / 'key'} has fewer than 8 characters"


def test_a_key_of_eight_characters_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With it the model is asked, which nobody answers for here.
    assert "does not answer" in model_finding(tmp_path, monkeypatch, b"sk-12345\n").detail


def test_emacs_and_doctor_agree_on_the_shortest_key() -> None:
    match = re.search(r"efrit-secret--fewest-characters (\d+)", SECRET.read_text())
    assert match is not None
    assert int(match[1]) == FEWEST_KEY_CHARACTERS
