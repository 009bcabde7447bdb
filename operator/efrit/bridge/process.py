"""What the bridge asks of the system for itself, once, before anything else."""

import contextlib
import ctypes

_PR_SET_DUMPABLE = 4
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def hide_from_emacs() -> None:
    """Hide this process from Emacs, which runs as the same user: /proc/<pid>/root would show it the Secret."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def give_memory_back() -> None:
    """Return freed memory to the system instead of keeping it for the next responses.

    glibc only; another C library has no such function, or no such need.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_ARENA_MAX, 1)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 * 1024)
        libc.mallopt(_M_TRIM_THRESHOLD, 64 * 1024)
