"""Tokens, and their exchange while the bridge serves."""

from pathlib import Path

import pytest

from efrit.bridge.auth import Tokens
from efrit.errors import ConfigurationError
from tests.support.certificates import TOKEN, put
from tests.support.descriptors import no_descriptors
from tests.unit.bridge.conftest import Served, eventually


async def status_with(served: Served, token: str) -> int:
    answer = await served.client.get("/v1/stats", headers={"authorization": f"Bearer {token}"})
    return answer.status_code


async def test_a_new_token_is_accepted_at_once_and_the_old_one_while_it_is_kept(served: Served) -> None:
    put(served.secrets / "token-previous", TOKEN.encode())
    put(served.secrets / "token", b"token-two")
    assert await status_with(served, "token-two") == 200
    assert await status_with(served, TOKEN) == 200
    (served.secrets / "token-previous").unlink()
    await eventually(lambda: status_with(served, TOKEN), 401)
    assert await status_with(served, "token-two") == 200


async def test_a_secret_that_vanishes_locks_nobody_out(served: Served) -> None:
    (served.secrets / "token").unlink()
    assert await status_with(served, "wrong") == 401
    assert await status_with(served, TOKEN) == 200


def test_a_token_that_could_not_be_read_once_is_accepted_with_the_next_look(secrets: Path) -> None:
    tokens = Tokens(secrets)
    put(secrets / "token", b"token-two")
    with no_descriptors():
        tokens.refresh()
    assert tokens.accepts(f"Bearer {TOKEN}"), "those that are known stay"
    assert tokens.accepts("Bearer token-two")


@pytest.mark.parametrize("content", [None, b"", b"  \n"])
def test_without_a_token_the_bridge_does_not_start(secrets: Path, content: bytes | None) -> None:
    if content is None:
        (secrets / "token").unlink()
    else:
        put(secrets / "token", content)
    with pytest.raises(ConfigurationError, match="token"):
        Tokens(secrets)


def test_the_scheme_is_read_in_any_case_and_the_token_exactly(secrets: Path) -> None:
    tokens = Tokens(secrets)
    assert tokens.accepts(f"bearer {TOKEN}")
    assert tokens.accepts(f"BEARER  {TOKEN} ")
    assert not tokens.accepts(f"Bearer {TOKEN.upper()}")
    assert not tokens.accepts(f"Bearer {TOKEN[:-1]}")
    assert not tokens.accepts("Bearer ")
    assert not tokens.accepts(TOKEN)
