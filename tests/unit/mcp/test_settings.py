"""What the command line of efrit-mcp allows."""

import pytest

from efrit import __version__
from efrit.mcp.access import Access
from efrit.mcp.settings import read


def test_it_serves_stdio_with_everything_allowed_by_default() -> None:
    settings = read([])
    assert settings.http is None
    assert settings.access is Access.FULL


def test_read_only_is_stronger_than_no_destructive_tools() -> None:
    assert read(["--read-only", "--disable-destructive"]).access is Access.READ_ONLY
    assert read(["--disable-destructive"]).access is Access.NOT_DESTRUCTIVE


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--transport", "http", "--auth", "none", "--host", "192.0.2.1"],
            "anybody who reaches the port may run code",
        ),
        (["--transport", "http", "--host", "192.0.2.1"], "tokens would travel in the clear"),
        (["--transport", "http", "--tls-cert", "a.pem"], "go together"),
        (["--transport", "http", "--port", "99999"], "--port: 99999 is not a port: give a number from 1 to 65535"),
        (["--transport", "http", "--port", "0"], "--port: 0 is not a port"),
        (["--read"], "unrecognized"),
        (["--host", ""], "--host: the value is empty: give one, or leave the option out"),
        (["--config="], "--config: the value is empty"),
        (["-n", ""], "--namespace/-n: the value is empty"),
    ],
)
def test_what_would_be_unsafe_or_wrong_does_not_start(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read(words)
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_it_reports_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        read(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"efrit-mcp {__version__}\n"
