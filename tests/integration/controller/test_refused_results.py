"""A result too large for a status, whose Secret the API server refuses: the request ends and says why."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from efrit import resources
from efrit.errors import ApiError
from tests.support.kube import Json, until
from tests.support.site import Site

LARGE = "(make-string 100000 ?x)"


def _quota(site: Site) -> AbstractContextManager[None]:
    """Allow no further Secret. Nobody counts here: the status that the quota controller writes is given."""
    used = len(site.kube.list("secrets", site.namespace))
    spec = {"hard": {"count/secrets": str(used)}}
    path = resources.QUOTAS.path(site.namespace)
    made = site.kube.call("POST", path, resources.QUOTAS.manifest({"name": "few"}, spec=spec))
    made["status"] = {**spec, "used": spec["hard"]}
    site.kube.call("PUT", f"{path}/few/status", made)

    @contextmanager
    def in_force() -> Any:
        until(lambda: _refused(site), "the quota is not in force")
        yield
        site.kube.call("DELETE", f"{path}/few")

    return in_force()


def _policy(site: Site) -> AbstractContextManager[None]:
    """Refuse Secrets of results by an admission policy."""
    name = f"no-results-{site.namespace}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}}}
    check = {"expression": "object.type != 'efrit.dev/result'", "message": "results are kept elsewhere here"}
    policy = {"matchConstraints": {"resourceRules": [rule], **here}, "validations": [check]}
    binding = {"policyName": name, "validationActions": ["Deny"], "matchResources": here}
    specs = {resources.VALIDATING_POLICIES: policy, resources.VALIDATING_POLICY_BINDINGS: binding}

    @contextmanager
    def in_force() -> Any:
        for resource, spec in specs.items():
            site.kube.call("POST", resource.path(), resource.manifest({"name": name}, spec=spec))
        until(lambda: _refused(site), "the policy is not in force")
        yield
        for resource in specs:
            site.kube.call("DELETE", resource.path(name=name))

    return in_force()


def _refused(site: Site) -> bool:
    """Whether the Secret of a result is refused by now."""
    try:
        site.kube.create(
            "secrets", site.namespace, {"metadata": {"name": "probe"}, "type": "efrit.dev/result"}, dryRun="All"
        )
    except ApiError as refusal:
        return refusal.status is not None
    return False


@pytest.mark.parametrize(
    ("refusal", "sentence"), [(_quota, "exceeded quota: few"), (_policy, "results are kept elsewhere here")]
)
def test_a_result_that_is_refused_ends_the_request_with_its_beginning_and_the_reason(
    site: Site, refusal: Callable[[Site], AbstractContextManager[None]], sentence: str
) -> None:
    site.operator().start()
    site.instance()
    with refusal(site):
        name = site.ask(LARGE)
        status = site.answer(name)

    assert (status["phase"], status["reason"], status["outcome"]) == ("Succeeded", "Succeeded", "Success")
    assert (len(status["result"]), status["truncated"]) == (32768, True)
    assert "resultRef" not in status
    message = _complete(status)["message"]
    assert sentence in message
    # Where it says that the whole result is, it is, once the answer is acknowledged.
    uid = site.kube.get("efritrequests", site.namespace, name)["metadata"]["uid"]
    assert f"/archive/resp_{uid}.json" in message
    path = site.node.pod("one").queue / "archive" / f"resp_{uid}.json"
    until(path.exists, "the answer is not acknowledged")
    assert json.loads(path.read_text())["result"] == '"' + "x" * 100000 + '"'


def _complete(status: Json) -> Json:
    return next((condition for condition in status.get("conditions", ()) if condition["type"] == "Complete"), {})


def test_a_secret_that_somebody_created_in_advance_is_not_named_as_the_result(site: Site) -> None:
    operator = site.operator()
    operator.start()
    site.instance()
    gate = '(progn (while (not (file-exists-p "go")) (sleep-for 0.02)) (make-string 100000 ?x))'
    name = site.ask(gate, timeoutSeconds=600)
    uid = site.kube.get("efritrequests", site.namespace, name)["metadata"]["uid"]
    fake = {"result": base64.b64encode(b"fake").decode()}
    site.kube.create(
        "secrets", site.namespace, {"metadata": {"name": f"efrit-result-{uid}"}, "data": fake, "immutable": True}
    )
    (site.node.pod("one").workspace / "go").touch()

    status = site.answer(name)

    assert (status["phase"], status["truncated"], "resultRef" in status) == ("Succeeded", True, False)
    assert "is not the result of this request" in _complete(status)["message"]
