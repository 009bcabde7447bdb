"""What the API server is asked about a caller, and which of its answers count."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from efrit.backend.cluster.api import Api
from efrit.mcp.access_review import ApiServerReviewer, Caller, Permission
from efrit.resources import Resource

ANN = {"username": "ann", "uid": "u1", "groups": ["team"], "extra": {"scopes": ["a", "b"]}}


@dataclass
class ScriptedApi:
    """Answers every review with this status."""

    status: dict[str, Any]
    reviews: list[dict[str, Any]] = field(default_factory=list)

    async def review(self, resource: Resource, spec: dict[str, Any]) -> dict[str, Any]:
        assert resource.kind == ("TokenReview" if "token" in spec else "SubjectAccessReview")
        self.reviews.append(spec)
        return self.status


def reviewer(api: ScriptedApi, *audiences: str) -> ApiServerReviewer:
    return ApiServerReviewer(cast("Api", api), audiences)


async def test_a_caller_is_taken_whole() -> None:
    caller = await reviewer(ScriptedApi({"authenticated": True, "user": ANN})).authenticate("t")
    assert caller == Caller("ann", "u1", ("team",), {"scopes": ("a", "b")})


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False, "user": ANN},
        {"user": ANN},
        {"authenticated": "true", "user": ANN},
        {"authenticated": True, "user": ANN, "error": "expired"},
        {"authenticated": True, "user": {"username": ""}},
        {"authenticated": True},
        {},
    ],
)
async def test_anything_but_a_plain_yes_is_nobody(status: dict[str, Any]) -> None:
    assert await reviewer(ScriptedApi(status)).authenticate("t") is None


@pytest.mark.parametrize(
    ("audiences", "accepted"), [(["ours", "x"], True), (["x"], False), (None, False), ([], False)]
)
async def test_an_answer_about_other_audiences_does_not_count(audiences: list[str] | None, accepted: bool) -> None:
    api = ScriptedApi({"authenticated": True, "user": ANN, "audiences": audiences})
    assert (await reviewer(api, "ours").authenticate("t") is not None) is accepted
    assert api.reviews == [{"token": "t", "audiences": ["ours"]}]


async def test_the_question_names_the_whole_caller_and_the_whole_act() -> None:
    api = ScriptedApi({"allowed": True})
    caller = Caller("ann", "u1", ("team",), {"scopes": ("a", "b")})
    assert await reviewer(api).is_allowed(caller, Permission("create", "pods/exec", "ns", "efrit-one-0", group=""))
    assert api.reviews == [
        {
            "user": "ann",
            "uid": "u1",
            "groups": ["team"],
            "extra": {"scopes": ["a", "b"]},
            "resourceAttributes": {
                "verb": "create",
                "group": "",
                "resource": "pods",
                "subresource": "exec",
                "namespace": "ns",
                "name": "efrit-one-0",
            },
        }
    ]


@pytest.mark.parametrize("status", [{}, {"allowed": False}, {"allowed": True, "denied": True}, {"allowed": "yes"}])
async def test_anything_but_a_plain_yes_is_no(status: dict[str, Any]) -> None:
    assert not await reviewer(ScriptedApi(status)).is_allowed(Caller("ann"), Permission("get", "efritrequests", "ns"))
