"""What the bridge asks of the system for itself."""

import subprocess
import sys

from tests.support.timeout import TIMEOUT

PROGRAM = """
import ctypes
from efrit.bridge.process import give_memory_back, hide_from_emacs
hide_from_emacs()
give_memory_back()
PR_GET_DUMPABLE = 3
print(ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0))
"""


def test_the_bridge_cannot_be_looked_into_by_others_of_its_user() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=TIMEOUT
    )
    assert done.stdout.strip() == "0"


HIDDEN_FIRST = """
import sys
import efrit.bridge.start, efrit.bridge.process
print(sorted({"asyncio", "msgspec", "starlette", "uvicorn"} & set(sys.modules)))
hide = efrit.bridge.start.hide_from_emacs
efrit.bridge.start.hide_from_emacs = lambda: (hide(), print("hidden", "efrit.bridge.app" in sys.modules))
try:
    efrit.bridge.start.main()
except SystemExit:
    print("efrit.bridge.app" in sys.modules)
"""


def test_the_program_is_hidden_before_anything_is_loaded_that_takes_time() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN_FIRST], capture_output=True, text=True, check=True, timeout=TIMEOUT, env={}
    )
    assert done.stdout.splitlines() == ["[]", "hidden False", "True"]


def test_the_bridge_carries_no_libraries_of_the_controller_around() -> None:
    heavy = ("kopf", "kubernetes", "aiohttp", "httpx", "pydantic")
    program = f"import sys, efrit.bridge.app; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=TIMEOUT
    )
    assert done.stdout.strip() == "[]"
