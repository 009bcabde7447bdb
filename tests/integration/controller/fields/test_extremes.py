"""Objects at the edge of what the API server takes: each is answered, whole, and stored."""

from __future__ import annotations

import base64
import hashlib

import pytest

from efrit.api.request import MAX_CONTENT_CHARS
from tests.support.kube import Json
from tests.support.site import Site

LARGE = "(make-string 40000 ?x)"
NAMES = {
    "253 characters": ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61]),
    "a dot where a label is cut": f"{'l' * 62}.x",
    "dots and dashes": "a.b-c.d-0",
}


@pytest.fixture(scope="module")
def roomy(shared: Site) -> Site:
    """Return the site with an instance `roomy` that takes all that a request may hold."""
    shared.instance("roomy", limits={"maxRequestBytes": 1_048_576})
    return shared


def whole(site: Site, status: Json) -> str:
    """Return the result from the Secret it lies in."""
    reference = status["resultRef"]
    secret = site.kube.get("secrets", site.namespace, reference["secretName"])
    data = base64.b64decode(secret["data"][reference["key"]])
    assert (len(data), hashlib.sha256(data).hexdigest()) == (reference["bytes"], reference["sha256"])
    return data.decode()


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_request_of_any_name_gets_its_secret(shared: Site, name: str) -> None:
    assert whole(shared, shared.answer(shared.ask(LARGE, name))) == f'"{"x" * 40_000}"'


def test_an_instance_with_the_longest_name_works(shared: Site) -> None:
    name = "i" * 46
    shared.instance(name)
    assert shared.answer(shared.ask("'long", to=name))["result"] == "long"


@pytest.mark.parametrize(
    "text", ["\x01\x02\x1f\x7f", "\r\n\t\v", "\u2028\ufeff\ufffe\U0010ffff", "e\u0301\u202e\u0627", "\\u0000\\ud800"]
)
def test_text_of_any_kind_comes_back_as_it_went(shared: Site, text: str) -> None:
    shown = "".join(f"\\{character}" if character in '\\"' else character for character in text)
    status = shared.answer(shared.ask(f'"{shown}"'))
    assert status["result"] == f'"{shown}"'


def test_work_that_fills_its_object_is_answered_nevertheless(roomy: Site) -> None:
    """The API server writes a < as six bytes: with this content, 1.4 of the 1.5 MiB that etcd takes."""
    long = "(make-string 9000 ?<)"
    lisp = f'(progn (princ {long}) (message "%s" {long}) (make-string 30000 ?<)) ;'
    status = roomy.answer(roomy.ask(lisp.ljust(MAX_CONTENT_CHARS, "<"), to="roomy", returnContext=True))
    assert (status["phase"], status["truncated"]) == ("Succeeded", True)
    assert whole(roomy, status) == f'"{"<" * 30_000}"'
    assert "Status truncated" in status["conditions"][0]["message"]


def test_a_failure_is_recorded_in_a_full_object(roomy: Site) -> None:
    lisp = '(error "%s" (make-string 20000 ?<)) ;'
    status = roomy.answer(roomy.ask(lisp.ljust(MAX_CONTENT_CHARS, "<"), to="roomy"))
    assert (status["phase"], status["reason"], status["error"]["code"]) == ("Failed", "EvalError", "error")


def test_a_rejection_is_recorded_in_a_full_object(shared: Site) -> None:
    shared.instance("narrow", ready=False, operatingMode="Suspended", limits={"maxRequestBytes": 9})
    status = shared.answer(shared.ask("<" * MAX_CONTENT_CHARS, to="narrow"))
    assert status["reason"] == "Rejected"
