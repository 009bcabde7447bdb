"""The work that a command line describes: `eval`, `command`, `submit` and `chat` hand it over."""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from efrit.backend.errors import WrongSettings
from efrit.backend.interface import Budget, RequestType, Work
from efrit.backend.place import backend_of
from efrit.cli.place import place_of
from efrit.cli.streams import is_terminal, read_text


def work_of(kind: RequestType, args: Namespace, words: list[str]) -> Work:
    """Return the work that the command line describes. Raises `WrongSettings`."""
    bounds = {name: bound for name in Budget.__struct_fields__ if (bound := getattr(args, name, None)) is not None}
    return Work(
        kind,
        _content(args, words),
        instance=args.instance,
        pool=args.pool,
        selector=_labels(args.selector),
        timeout=args.timeout,
        queue_timeout=args.queue_timeout,
        return_context=args.return_context,
        budget=Budget(**bounds) if bounds else None,
        session=getattr(args, "session", None),
        priority=args.priority,
        retry=args.retry,
        key=args.key,
        directory=directory_of(args),
    )


def directory_of(args: Namespace) -> str | None:
    """Return the directory work begins in: the one named, or on this machine the one this program runs in."""
    if args.dir is None and backend_of(place_of(args), os.environ) == "cluster":
        return None
    try:
        return os.path.abspath(os.path.expanduser(args.dir or "."))  # noqa: PTH100, PTH111 - pathlib keeps `..`
    except FileNotFoundError as error:
        raise WrongSettings("the current directory no longer exists", "change to another one") from error


def _content(args: Namespace, words: list[str]) -> str:
    if args.file is not None and words:
        raise WrongSettings("both a file and a text are given", "leave one of them out")
    if args.file is not None:
        return read_text(args.file)
    if words == ["-"] or (not words and not is_terminal(sys.stdin)):
        return read_text()
    if not words:
        raise WrongSettings("there is nothing to do", "say what, or give - to read it from standard input")
    return " ".join(words)


def _labels(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",") if part]
    if not pairs or any(not key or sign != "=" for key, sign, _ in pairs):
        raise WrongSettings(f"{text!r} is not a selector", "write key=value,key=value")
    return {key: value for key, _, value in pairs}
