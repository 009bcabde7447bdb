"""The standard streams: usable whatever the caller left of them, and text that is UTF-8 or refused in words."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from io import TextIOWrapper
from typing import TextIO

from efrit.backend.errors import WrongSettings
from efrit.cli.terminal_text import sanitized_lines

LONGEST_TEXT = 16 << 20
"""Bytes of text a file or standard input may give: more than any queue takes."""


def prepare() -> None:
    """Open what is closed, and have output that the locale cannot show escaped.

    Standard output that is closed refuses what is printed: nobody is to take it for written.
    """
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        # A socket or a file must not become a standard stream by taking its number.
        while (fd := _lowest_null()) < 3:
            pass
        os.close(fd)
        sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _lowest_null() -> int:
    """Open /dev/null as the lowest free file descriptor, which reads alone in the place of standard output."""
    fd = os.open(os.devnull, os.O_RDWR)
    if fd == 1:
        os.close(fd)
        fd = os.open(os.devnull, os.O_RDONLY)
    return fd


def flush() -> None:
    """Hand over what was printed. Raises OSError, BrokenPipeError."""
    sys.stdout.flush()
    sys.stderr.flush()


def discard_output() -> None:
    """Drop what could not be printed: Python would complain when it flushes once more."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(null, stream.fileno())
    os.close(null)


def check_arguments(arguments: list[str]) -> None:
    """Raise `WrongSettings` for an argument that is not text in the encoding of the locale."""
    for word in arguments:
        if not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word):
            shown = word.encode(errors="surrogateescape").decode(errors="backslashreplace")
            raise WrongSettings(f"an argument is not valid UTF-8: {shown}", "pass it in a file, in UTF-8: -f FILE")


def read_text(path: str = "-") -> str:
    """Return the text of a file, of standard input for `-`: UTF-8, or else the encoding of the locale.

    Raises `WrongSettings` where it is neither, too long, or cannot be read.
    """
    name = "standard input" if path == "-" else path
    try:
        if path == "-":
            data = _standard_input()
        else:
            with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
                data = file.read(LONGEST_TEXT + 1)
    except (OSError, ValueError) as error:
        raise WrongSettings(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > LONGEST_TEXT:
        raise WrongSettings(f"{name} holds more than {LONGEST_TEXT >> 20} MiB", "have the work read it from a file")
    try:
        # As Emacs loads a file, whatever editor wrote it.
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        wrong = error
    encoding = sys.getfilesystemencoding()
    if encoding.lower().replace("-", "") not in ("utf8", "ascii"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            pass
    raise WrongSettings(
        f"{name} is not valid UTF-8: byte 0x{data[wrong.start]:02x} at offset {wrong.start}", "convert it with iconv"
    )


def _standard_input() -> bytes:
    buffer = getattr(sys.stdin, "buffer", None)
    # A test may have put text in its place.
    return sys.stdin.read().encode() if buffer is None else buffer.read(LONGEST_TEXT + 1)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have Ctrl-C end a read of this thread by `KeyboardInterrupt`, though the read holds up the event loop."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def typed_line() -> str:
    """Return the line that the user types, without the space around it. Raises `KeyboardInterrupt`."""
    with interruptible():
        return sys.stdin.readline().strip()


def printable(text: str, stream: TextIO | None = None) -> str:
    """Return `text` as it is written to a stream, by default standard output: at a terminal it moves no cursor.

    Others wrote it. A file or a program gets all of it as it is.
    """
    return sanitized_lines(text.expandtabs()) if is_terminal(sys.stdout if stream is None else stream) else text


def is_terminal(*streams: TextIO | None) -> bool:
    """Return whether each of `streams` is a terminal."""
    return all(stream is not None and stream.isatty() for stream in streams)
