"""The settings of a model on this machine, and what an answer to a probe means."""

import re
from pathlib import Path

import pytest

from efrit.api.instance import Model
from efrit.client.local.daemon import lisp_directory
from efrit.client.local.model import DEFAULT_BASE_URL, differences, settings_in
from efrit.client.local.model_probe import probe, verdict


def test_the_base_url_has_one_default() -> None:
    lisp = (lisp_directory() / "efrit-settings.el").read_text()
    (in_lisp,) = re.findall(r'\(defconst efrit-model-default-base-url "([^"]+)"', lisp)
    assert {in_lisp, Model.model_fields["base_url"].default} == {DEFAULT_BASE_URL}


def test_only_the_variables_of_the_model_that_are_set_count() -> None:
    environment = {"EFRIT_MODEL_NAME": "m", "EFRIT_MODEL_PROXY": "", "EFRIT_CONFIG": "c", "PATH": "p"}
    assert settings_in(environment) == {"EFRIT_MODEL_NAME": "m"}


@pytest.mark.parametrize(
    ("theirs", "mine", "told"),
    [
        ({}, {}, ""),
        ({"EFRIT_MODEL_NAME": "m"}, {}, ""),
        ({"EFRIT_MODEL_NAME": "m"}, {"EFRIT_MODEL_NAME": "m"}, ""),
        ({}, {"EFRIT_MODEL_NAME": "m"}, "EFRIT_MODEL_NAME is m here and unset there"),
        ({"EFRIT_MODEL_NAME": "a"}, {"EFRIT_MODEL_NAME": "b"}, "EFRIT_MODEL_NAME is b here and a there"),
    ],
)
def test_a_difference_is_what_the_caller_has_set_otherwise(
    theirs: dict[str, str], mine: dict[str, str], told: str
) -> None:
    assert differences(theirs, mine) == told


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "EFRIT_MODEL_API_KEY_FILE"), (404, "EFRIT_MODEL_BASE_URL"), (400, "EFRIT_MODEL_NAME"), (529, "later")],
)
def test_a_refusal_of_the_model_says_what_to_change(status: int, remedy: str) -> None:
    found = verdict("m", "http://x", status, '{"error": {"message": "No such thing"}}')
    assert (found.ok, found.detail) == (False, f"http://x answers {status}: No such thing")
    assert remedy in found.remedy


def test_an_answer_that_is_no_json_is_shown_as_it_is() -> None:
    assert verdict("m", "http://x", 502, "<html>\nBad  gateway").detail == "http://x answers 502: <html> Bad gateway"


def test_a_key_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    environment = {"EFRIT_MODEL_NAME": "m", "EFRIT_MODEL_API_KEY_FILE": str(tmp_path / "key")}
    assert "cannot be read" in probe(environment).detail
    (tmp_path / "key").write_text("\n")
    assert "has fewer than 8 characters" in probe(environment).detail
    (tmp_path / "key").write_text("a text of words")
    assert "holds no key" in probe(environment).detail
