"""act/identity.py: the controller's own secrets are made once and read ever after."""

from __future__ import annotations

import base64

import pytest

from efrit import resources
from efrit.controller.act.identity import load_identity, new_identity
from efrit.controller.act.kube import Kube
from efrit.errors import ApiUnavailable, ConfigurationError
from tests.unit.controller.fake_api import FakeApi

SECRETS = resources.SECRETS.path("efrit-system")
SECRET = f"{SECRETS}/identity"
GOOD = base64.b64encode(bytes(32)).decode()


async def test_the_first_start_makes_the_identity_and_later_ones_read_it(api: FakeApi, kube: Kube) -> None:
    first = await load_identity(kube, "efrit-system", "identity")
    second = await load_identity(kube, "efrit-system", "identity")

    assert first == second
    assert len(first.hmac_key) == 32
    assert [call.method for call in api.calls] == ["GET", "POST", "GET"]


async def test_of_two_first_starts_at_once_both_take_the_identity_that_was_made(api: FakeApi, kube: Kube) -> None:
    made = await load_identity(kube, "efrit-system", "identity")
    api.fail("GET", SECRET, 404)

    assert await load_identity(kube, "efrit-system", "identity") == made


async def test_during_a_rotation_the_former_key_is_read_too(api: FakeApi, kube: Kube) -> None:
    await load_identity(kube, "efrit-system", "identity")
    api.objects[SECRET]["data"]["hmac-previous.key"] = GOOD

    assert (await load_identity(kube, "efrit-system", "identity")).previous_hmac_key == bytes(32)


@pytest.mark.parametrize("data", [None, {}, {"hmac.key": "eA=="}, {"hmac.key": GOOD, "hmac-previous.key": "eA=="}])
async def test_a_key_that_is_missing_or_short_is_named_with_what_to_do(
    api: FakeApi, kube: Kube, data: object
) -> None:
    api.put(SECRET, {"metadata": {"name": "identity", "namespace": "efrit-system"}, "data": data})

    with pytest.raises(
        ConfigurationError, match=r"efrit-system/identity: hmac.* has . bytes instead of 32 .*delete the Secret"
    ):
        await load_identity(kube, "efrit-system", "identity")


async def test_an_identity_is_not_made_because_the_api_server_is_away(api: FakeApi, kube: Kube) -> None:
    api.fail("GET", SECRET, 503)

    with pytest.raises(ApiUnavailable):
        await load_identity(kube, "efrit-system", "identity")

    assert api.made("POST") == []


def test_no_two_identities_share_a_key() -> None:
    assert new_identity().hmac_key != new_identity().hmac_key
