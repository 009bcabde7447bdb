"""What the bridge of one instance said of each request, with a count of those that have no answer yet."""

from __future__ import annotations

from collections import UserDict

from efrit.protocol.view import RequestView


class RequestViews(UserDict[str, RequestView]):
    """Request UID -> what was last said of it; bounded by who fills it."""

    def __init__(self) -> None:
        super().__init__()
        self.unfinished = 0
        """Requests that wait on the queue or run."""

    def __setitem__(self, uid: str, view: RequestView) -> None:
        if uid in self:
            del self[uid]
        super().__setitem__(uid, view)
        self.unfinished += not view.state.final

    def __delitem__(self, uid: str) -> None:
        self.unfinished -= not self[uid].state.final
        super().__delitem__(uid)
