"""Telling repeated executions from new ones."""

from __future__ import annotations

from typing import Final

__all__ = ["ExecIds"]

# Ids further apart than this are no longer told from repeated ones.
WINDOW: Final = 65_536


class ExecIds:
    """Which execution ids of one venue stream were seen, in bounded memory.

    Ids come from 1 upwards, so nearly all of it is one number; ids beyond a hole are kept in a set.
    """

    __slots__ = ("_beyond", "_through")

    def __init__(self) -> None:
        self._through = 0
        self._beyond: set[int] = set()

    def is_new(self, exec_id: int) -> bool:
        """Remember `exec_id`; False when it was there."""
        if exec_id == self._through + 1:
            self._through = exec_id
            while self._beyond and self._through + 1 in self._beyond:
                self._through += 1
                self._beyond.remove(self._through)
            return True
        if exec_id <= self._through or exec_id in self._beyond:
            return False
        self._beyond.add(exec_id)
        if len(self._beyond) > WINDOW:
            # The hole is other people's executions: close it.
            self._through = sorted(self._beyond)[WINDOW // 2]
            self._beyond = {known for known in self._beyond if known > self._through}
        return True
