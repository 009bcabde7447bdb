"""Refusals of the API server in one namespace: a ValidatingAdmissionPolicy, or a ResourceQuota that is used up.

No controller here counts what a quota is used for: its status is written once, and allows nothing.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from efrit.api_group import GROUP
from efrit.errors import ApiError
from efrit.resources import VALIDATING_POLICIES, VALIDATING_POLICY_BINDINGS, Resource
from tests.support.kube import Json, Kube

RESULT_TYPE = f"{GROUP}/result"


@dataclass(frozen=True)
class Matched:
    """What a policy refuses: a resource, its group, and the operations."""

    group: str
    resource: str
    operations: tuple[str, ...] = ("CREATE",)
    allowed: str = "false"
    """CEL: what is allowed nevertheless."""


MATCHES = {
    "result secrets": Matched("", "secrets", allowed=f"!has(object.type) || object.type != '{RESULT_TYPE}'"),
    "secrets": Matched("", "secrets"),
    "statefulsets": Matched("apps", "statefulsets", ("CREATE", "UPDATE")),
    "pods": Matched("", "pods"),
    "persistentvolumeclaims": Matched("", "persistentvolumeclaims"),
}


class Refusal:
    """A policy for one namespace; takes effect within a second or two."""

    def __init__(self, kube: Kube, namespace: str, what: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._matched = MATCHES[what]
        self._name = f"{namespace}-{what.replace(' ', '-')}"

    def begin(self) -> None:
        """Create the policy and its binding."""
        rule = {
            "apiGroups": [self._matched.group],
            "apiVersions": ["*"],
            "resources": [self._matched.resource],
            "operations": list(self._matched.operations),
        }
        policy = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {
                    "expression": self._matched.allowed,
                    "message": f"{self._matched.resource} are refused for a while",
                    "reason": "Forbidden",
                }
            ],
        }
        here = {"matchLabels": {"kubernetes.io/metadata.name": self._namespace}}
        binding = {
            "policyName": self._name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": here},
        }
        self._make(VALIDATING_POLICIES, policy)
        self._make(VALIDATING_POLICY_BINDINGS, binding)

    def _make(self, resource: Resource, spec: Json) -> None:
        # An earlier step of the schedule refuses the same already.
        with contextlib.suppress(ApiError):
            self._kube.call("POST", resource.path(), resource.manifest({"name": self._name}, spec=spec))

    def end(self) -> None:
        """Delete both."""
        for resource in (VALIDATING_POLICY_BINDINGS, VALIDATING_POLICIES):
            with contextlib.suppress(ApiError):
                self._kube.call("DELETE", resource.path(name=self._name))


class Quota:
    """A ResourceQuota that allows no more of one resource."""

    def __init__(self, kube: Kube, namespace: str, what: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._what = what
        self._name = "used-up-" + "".join(letter if letter.isalnum() else "-" for letter in what)

    def begin(self) -> None:
        """Create the quota, used up."""
        hard = {self._what: "0"}
        with contextlib.suppress(ApiError):
            self._kube.create(
                "resourcequotas", self._namespace, {"metadata": {"name": self._name}, "spec": {"hard": hard}}
            )
            status = {"status": {"hard": hard, "used": {self._what: "0"}}}
            self._kube.patch("resourcequotas", self._namespace, self._name, status, sub="status")

    def end(self) -> None:
        """Delete the quota."""
        with contextlib.suppress(ApiError):
            self._kube.delete("resourcequotas", self._namespace, self._name)
