"""Where a process runs, as a heartbeat says it: whether its number means anything here."""

from efrit.protocol.model import WireModel


class ProcessPlace(WireModel, frozen=True, kw_only=True):
    """Where process numbers mean the same: one PID namespace, since one boot. What a system does not say is None."""

    host: str | None = None
    boot_id: str | None = None
    pid_namespace: str | None = None

    @property
    def exact(self) -> bool:
        """Whether it is known by more than the name of its host."""
        return None not in (self.boot_id, self.pid_namespace)

    def same(self, other: "ProcessPlace") -> bool:
        """Return whether `other` is the same place, whatever its host is called by now."""
        if self.exact and other.exact:
            return (self.boot_id, self.pid_namespace) == (other.boot_id, other.pid_namespace)
        return self.host == other.host

    def may_be(self, other: "ProcessPlace") -> bool:
        """Return whether `other` is the same place, for all that both report."""
        return not (self.exact and other.exact) or self.same(other)
