"""cli/each_name.py: commands that change several objects, of which some are not there."""

import json
from argparse import Namespace

import pytest

from efrit.backend.claims import Claim
from efrit.backend.errors import NotFound, Refused
from efrit.cli.each_name import change_each
from efrit.cli.exit_codes import Exit


async def change(name: str) -> Claim:
    """Change what is there."""
    if name.startswith("no"):
        raise NotFound(f"there is no {name}")
    if name == "bad":
        raise Refused("bad is refused")
    return Claim(name, "crew", message=f"{name} is changed")


async def changed(*names: str, output: str | None = None) -> Exit:
    return await change_each(Namespace(name=list(names), output=output), change, lambda claim: claim.message)


@pytest.mark.parametrize("output", [None, "name"])
async def test_each_is_changed_and_reported_though_one_is_not_there(
    output: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotFound, match="there is no none"):
        await changed("first", "none", "nothing", "last", output=output)
    printed = capsys.readouterr()
    assert printed.out == ("first\nlast\n" if output else "first is changed\nlast is changed\n")
    assert printed.err == "efrit: there is no nothing\n"


@pytest.mark.parametrize("output", [None, "name"])
async def test_what_was_changed_before_another_error_is_reported(
    output: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Refused, match="bad is refused"):
        await changed("first", "none", "bad", "last", output=output)
    printed = capsys.readouterr()
    assert printed.out == ("first\n" if output else "first is changed\n")


async def test_the_form_of_the_output_follows_from_the_number_of_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotFound):
        await changed("first", "none", output="json")
    assert [claim["name"] for claim in json.loads(capsys.readouterr().out)] == ["first"]
    assert await changed("first", output="json") is Exit.DONE
    assert json.loads(capsys.readouterr().out)["name"] == "first"
    with pytest.raises(NotFound):
        await changed("none", output="json")
    assert capsys.readouterr().out == ""
