"""What the server remembers: scenarios, keys, attempts, the prompt cache, the log. One lock around all of it."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

from .scenario import Scenario
from .usage import PromptCache

Json = dict[str, Any]
MAX_ENTRIES = 5000


class Book:
    """State shared by the threads that answer."""

    def __init__(self, scenarios: dict[str, Scenario], keys: list[str], log: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._scenarios = dict(scenarios)
        self._keys = frozenset(keys)
        self._first_keys = self._keys
        self._attempts: dict[tuple[str, str, int], int] = {}
        self._cache = PromptCache()
        self._entries: list[Json] = []
        self._number = 0
        self._shut = {scenario.name for scenario in scenarios.values() if scenario.gated}
        self._file = log

    @property
    def keys(self) -> frozenset[str]:
        """The keys that are taken."""
        return self._keys

    def take_keys(self, keys: list[str]) -> None:
        """Take these keys from now on, and no others."""
        with self._lock:
            self._keys = frozenset(keys)

    def scenario(self, name: str) -> Scenario | None:
        """Return the scenario NAME."""
        with self._lock:
            return self._scenarios.get(name)

    def begun_by(self, text: str) -> Scenario | None:
        """Return the scenario whose first request TEXT begins with; those chosen by name are not meant."""
        with self._lock:
            for scenario in self._scenarios.values():
                prompt = scenario.request[0].content if scenario.request else ""
                if prompt and "scenario=" not in prompt and text.startswith(prompt):
                    return scenario
        return None

    def names(self) -> list[str]:
        """Return the names of the scenarios."""
        with self._lock:
            return sorted(self._scenarios)

    def add(self, scenario: Scenario) -> None:
        """Take a scenario, in the place of one with its name."""
        with self._lock:
            self._scenarios[scenario.name] = scenario
            (self._shut.add if scenario.gated else self._shut.discard)(scenario.name)

    def shut(self, scenario: str) -> bool:
        """Tell whether the scenario's answers wait for its gate."""
        with self._lock:
            return scenario in self._shut

    def open(self, scenario: str) -> None:
        """Let the scenario's answers out from now on."""
        with self._lock:
            self._shut.discard(scenario)

    def waiting(self) -> list[str]:
        """Return the names of the scenarios at whose shut gate an answer waits."""
        with self._lock:
            return sorted(self._shut & {entry.get("scenario") for entry in self._entries if entry["ended"] is None})

    def attempt(self, scenario: str, conversation: str, turn: int) -> int:
        """Return how often this turn was asked for before."""
        with self._lock:
            place = (scenario, conversation, turn)
            before = self._attempts.get(place, 0)
            self._attempts[place] = before + 1
            return before

    def usage(self, body: Json) -> Json:
        """Return what the input of BODY costs."""
        with self._lock:
            return self._cache.usage(body)

    def reset(self) -> None:
        """Forget attempts, cache and log; the first keys count again."""
        with self._lock:
            self._attempts.clear()
            self._cache = PromptCache()
            self._entries.clear()
            self._keys = self._first_keys

    def begin(self, **fields: Any) -> Json:
        """Log a call that has come in, and return its entry for `note` and `end`."""
        with self._lock:
            self._number += 1
            entry: Json = {"number": self._number, "time": time.time(), "ended": None, **fields}
            self._entries.append(entry)
            del self._entries[:-MAX_ENTRIES]
            return entry

    def note(self, entry: Json, **fields: Any) -> None:
        """Add to an entry of the log."""
        with self._lock:
            entry |= fields

    def end(self, entry: Json, ended: str) -> None:
        """Log how a call has ended."""
        with self._lock:
            entry |= {"ended": ended, "seconds": round(time.time() - entry["time"], 4)}
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def entries(self, scenario: str | None) -> list[Json]:
        """Return the log, or that of one scenario."""
        with self._lock:
            return [dict(entry) for entry in self._entries if scenario is None or entry.get("scenario") == scenario]
