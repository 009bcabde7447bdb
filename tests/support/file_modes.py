"""Gives up root's right to read and write everything, for this thread: a mode of 000 then means what it says.

Containers run the bridge and Emacs as an ordinary user; a machine that tests runs them as root.
"""

import contextlib
import ctypes
import os
from collections.abc import Iterator

_LIBC = ctypes.CDLL(None, use_errno=True)
_VERSION_3 = 0x20080522
_DAC = (1 << 1) | (1 << 2)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def _call(name: str, data: ctypes.Array[_Data]) -> None:
    if getattr(_LIBC, name)(ctypes.byref(_Header(_VERSION_3, 0)), ctypes.byref(data)):
        raise OSError(ctypes.get_errno(), name)


@contextlib.contextmanager
def modes_hold() -> Iterator[None]:
    """Within, and in threads started within, the modes of files hold for root too."""
    capabilities = (_Data * 2)()
    _call("capget", capabilities)
    less = (_Data * 2)()
    _call("capget", less)
    less[0].effective &= ~_DAC
    _call("capset", less)
    try:
        yield
    finally:
        _call("capset", capabilities)


ORDINARY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
"""Put before a command: it runs without that right for good, and its children too."""
