"""Work for resident Emacs daemons, from Python: `connect` for programs, `connect_async` for those with asyncio.

`efrit.client.interface` is the vocabulary, with one `Backend` for a cluster (custom resources) and one for this
machine (the same queue, a local Emacs); `efrit.client.backends` opens one. `efrit.client.exports`
is imported when one of its names is used: the command line pays for every module.
"""

from typing import TYPE_CHECKING, Any

from efrit.entry_point import load_entry_point

if TYPE_CHECKING:
    from efrit.client.exports import *  # noqa: F403 - the names stand there, once


def __getattr__(name: str) -> Any:
    # The next look finds it without this function.
    value = globals()[name] = load_entry_point(f"{__name__}.exports:{name}")
    return value
