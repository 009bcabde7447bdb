"""What the bridge asks of the system for itself, once, before anything else."""

import contextlib
import ctypes

_PR_SET_DUMPABLE = 4
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def hide_from_emacs() -> None:
    """Emacs runs as the same user in the same process namespace; /proc/<us>/root would show it the Secret."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def give_memory_back() -> None:
    """Answers come and go: their memory shall go back to the system instead of being kept for the next.

    glibc only; another C library has no such function, or no such need.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_ARENA_MAX, 1)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 * 1024)
        libc.mallopt(_M_TRIM_THRESHOLD, 64 * 1024)
