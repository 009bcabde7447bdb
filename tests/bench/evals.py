"""`python -m tests.bench.evals`: how soon the next eval is answered after each one of the table (tests/evals).

No cluster: one bridge with its default limits and one real Emacs as processes. Prints one table; `make bench` prints
it too.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.bench.quantile import quantile
from tests.evals.table import read
from tests.support.bridge_instance import Instance
from tests.support.command_line import parser
from tests.support.compiled_lisp import compiled_lisp
from tests.support.eval_player import Played, Player

Row = tuple[str, str, str]


def delay(played: Played) -> float:
    """Return the seconds to the next answer.

    They count from the row's answer; where Emacs is ended, from the row's submission, without the time it is given.
    """
    if played.row.ends:
        return played.next_answered - played.submitted - played.row.timeout
    return max(0.0, played.next_answered - played.answered)


def play(one: Instance) -> list[Played]:
    """Play the table one row at a time."""
    player, everything = Player(one), []
    for row in read():
        (played,) = player.play([row])
        everything.append(played)
        # What is acknowledged is not sent again with the next stream.
        for name in played.names:
            one.client.delete(f"/v1/requests/{name}")
    return everything


def measure() -> list[Row]:
    """Run every measurement."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        environment = {"EFRIT_KILL_GRACE_SECONDS": "5"}
        with Instance(place / "instance", compiled_lisp(place / "lisp"), environment) as one:
            everything = play(one)
    staying = [delay(played) for played in everything if not played.row.ends]
    ending = [delay(played) for played in everything if played.row.ends]
    slowest = max((played for played in everything if not played.row.ends), key=delay)
    return [
        (f"next answer after a hostile eval, p50 (n={len(staying)})", "", f"{quantile(staying, 0.5) * 1000:.1f} ms"),
        ("the same, slowest", "<= 1 s", f"{max(staying):.2f} s ({slowest.row.name})"),
        (f"next answer after one that ends Emacs, p50 (n={len(ending)})", "", f"{quantile(ending, 0.5):.2f} s"),
        ("the same, slowest", "<= 10 s", f"{max(ending):.2f} s"),
    ]


if __name__ == "__main__":
    parser(__doc__).parse_args()
    for figure, goal, measured in measure():
        print(f"{figure:<60} {goal:<10} {measured}")
