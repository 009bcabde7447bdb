"""What is left of a volume, and when that is little. Pure, no I/O."""

from msgspec import Struct

PLENTY_BYTES = 64 << 20
PLENTY_INODES = 4096


class Space(Struct, frozen=True):
    """What is left of a volume for us, in bytes and inodes. `total_inodes` 0: it does not count them."""

    free_bytes: int
    total_bytes: int
    free_inodes: int
    total_inodes: int

    @property
    def low(self) -> bool:
        """Whether the archive should give way: less than a tenth is left, and less than is plenty on any volume."""
        short = self.free_bytes < min(self.total_bytes // 10, PLENTY_BYTES)
        return short or self.free_inodes < min(self.total_inodes // 10, PLENTY_INODES)

    @property
    def none(self) -> bool:
        """Whether not one more file has room."""
        return self.free_bytes <= 0 or (self.total_inodes > 0 and self.free_inodes <= 0)
