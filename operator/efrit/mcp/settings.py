"""The command line of `efrit-mcp` as one immutable value."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from efrit import __version__
from efrit.backend.place import Place
from efrit.mcp.access import Access

LOOPBACK = ("127.0.0.1", "::1", "localhost")
AUDIENCE = "efrit-mcp"


class ActAs(StrEnum):
    """Whose account calls the API server for a caller over HTTP."""

    CALLER = "caller"
    """The caller's, by impersonation: the API server decides what they may do, and its audit log names them."""
    SERVER = "server"
    """The server's own, after the API server was asked whether the caller may: for Kubernetes before 1.36."""


@dataclass(frozen=True)
class Limits:
    """How much the HTTP transport serves at once. `calls` is below `connections`: there is always one for a probe."""

    connections: int = 128
    connections_per_address: int = 64
    calls: int = 64
    calls_per_caller: int = 16


@dataclass(frozen=True)
class Http:
    """Where the HTTP transport listens and whom it serves. `authenticated` is False only on a loopback address."""

    host: str = "127.0.0.1"
    port: int = 8443
    certificate: Path | None = None
    key: Path | None = None
    authenticated: bool = True
    audiences: tuple[str, ...] = (AUDIENCE,)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    state_key: Path | None = None
    limits: Limits = Limits()
    act_as: ActAs = ActAs.CALLER
    authorization_servers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """What to serve and how; without `http`, on stdin and stdout."""

    place: Place
    access: Access = Access.FULL
    http: Http | None = None
    verbose: bool = False


_LIMITS = {
    "connections": "open connections",
    "connections_per_address": "of them from one address; where a proxy is in front, all are from one",
    "calls": "calls of all callers",
    "calls_per_caller": "calls of one caller",
}


class _Parser(argparse.ArgumentParser):
    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        # Of a variable that is not set, say: an empty --host would be every address.
        if action.option_strings and not arg_string:
            self.error(f"{'/'.join(action.option_strings)}: the value is empty: give one, or leave the option out")
        return super()._get_value(action, arg_string)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (--help lists the options)\n")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the options; docs/mcp.md explains them."""
    options = _Parser(
        prog="efrit-mcp",
        description="Serve Efrit's instances and requests over the Model Context Protocol.",
        allow_abbrev=False,
    )
    place = options.add_argument_group("where the work is done")
    place.add_argument("--backend", choices=("local", "cluster"), help="this machine or a cluster; default: detected")
    place.add_argument("--config", type=Path, help="configuration file of this machine's instances")
    place.add_argument("--kubeconfig", type=Path, help="as kubectl's")
    place.add_argument("--context", help="as kubectl's")
    place.add_argument("--namespace", "-n", help="as kubectl's")
    permissions = options.add_argument_group("what is allowed")
    permissions.add_argument("--read-only", action="store_true", help="offer only tools that change nothing")
    permissions.add_argument(
        "--disable-destructive",
        action="store_true",
        help="offer no destructive tools; work is limited to chats, whose model has no tools",
    )
    serving = options.add_argument_group("how it is served")
    serving.add_argument("--transport", choices=("stdio", "http"), default="stdio", help="default: stdio")
    serving.add_argument("--host", default="127.0.0.1", help="address to listen on (http); default: 127.0.0.1")
    serving.add_argument("--port", type=int, default=8443, help="port to listen on (http); default: 8443")
    serving.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate (http); reloaded when it changes")
    serving.add_argument("--tls-key", type=Path, metavar="FILE", help="private key of the certificate")
    serving.add_argument(
        "--auth",
        choices=("kubernetes", "none"),
        default="kubernetes",
        help="who may call (http): users of the cluster, by bearer token; or, on loopback only, anybody",
    )
    serving.add_argument(
        "--audience",
        action="append",
        default=[],
        help=f"audience a token must have, one of them if repeated; default: {AUDIENCE}",
    )
    serving.add_argument(
        "--act-as",
        choices=[mode.value for mode in ActAs],
        default=ActAs.CALLER.value,
        help="whose account is used in the cluster (http): the caller's, by impersonation, or the server's own after "
        "a review of the caller's permissions; default: caller",
    )
    serving.add_argument(
        "--authorization-server",
        action="append",
        default=[],
        metavar="URL",
        help="where a client can get a token (http), as metadata for it; may be repeated",
    )
    serving.add_argument("--allowed-host", action="append", default=[], help="Host header to accept; may be repeated")
    serving.add_argument(
        "--allowed-origin", action="append", default=[], help="Origin header to accept; may be repeated"
    )
    serving.add_argument(
        "--state-key",
        type=Path,
        metavar="FILE",
        help="file with a key of at least 32 bytes, the same in all replicas",
    )
    options.add_argument("--version", action="version", version=f"efrit-mcp {__version__}")
    limits = options.add_argument_group("how much is served at once (http)")
    for field in fields(Limits):
        limits.add_argument(
            f"--max-{field.name.replace('_', '-')}",
            type=int,
            default=field.default,
            metavar="N",
            help=f"{_LIMITS[field.name]}; default: {field.default}",
        )
    options.add_argument("--verbose", "-v", action="store_true", help="log more, to stderr")
    return options


def read(arguments: Sequence[str] | None = None) -> Settings:
    """Return the settings. Exits the program with a message if the command line is wrong."""
    options = parser()
    parsed = options.parse_args(arguments)
    http = _http(options, parsed) if parsed.transport == "http" else None
    access = (
        Access.READ_ONLY
        if parsed.read_only
        else Access.NOT_DESTRUCTIVE
        if parsed.disable_destructive
        else Access.FULL
    )
    return Settings(
        Place(parsed.backend, parsed.config, parsed.kubeconfig, parsed.context, parsed.namespace),
        access,
        http,
        parsed.verbose,
    )


def _http(options: argparse.ArgumentParser, parsed: argparse.Namespace) -> Http:
    authenticated = parsed.auth == "kubernetes"
    if not 1 <= parsed.port <= 65535:
        # The system takes what is left of a larger number: nobody looks for the server there.
        options.error(f"--port: {parsed.port} is not a port: give a number from 1 to 65535")
    if not authenticated and parsed.host not in LOOPBACK:
        options.error("--auth none needs a loopback --host: anybody who reaches the port may run code")
    if (parsed.tls_cert is None) != (parsed.tls_key is None):
        options.error("--tls-cert and --tls-key go together")
    if parsed.tls_cert is None and parsed.host not in LOOPBACK:
        options.error("a --host that is not loopback needs --tls-cert: tokens would travel in the clear")
    limits = Limits(*(getattr(parsed, f"max_{field.name}") for field in fields(Limits)))
    if min(astuple(limits)) < 1:
        options.error("each --max-… is 1 or more")
    if limits.calls >= limits.connections:
        options.error("--max-calls must be less than --max-connections: a probe needs a connection too")
    return Http(
        parsed.host,
        parsed.port,
        parsed.tls_cert,
        parsed.tls_key,
        authenticated,
        tuple(parsed.audience) or (AUDIENCE,),
        tuple(parsed.allowed_host),
        tuple(parsed.allowed_origin),
        parsed.state_key,
        limits,
        ActAs(parsed.act_as),
        tuple(parsed.authorization_server),
    )
