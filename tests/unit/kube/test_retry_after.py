"""kube/retry_after.py: for how long an answer asks to be left alone."""

from __future__ import annotations

import pytest

from efrit.kube.retry_after import retry_after_seconds

NOW = "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        (7, 7.0),
        ("0.5", 0.5),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30.0),
        ("Wednesday, 21-Oct-15 07:29:00 GMT", 60.0),
        ("Wed Oct 21 07:28:05 2015", 5.0),
        ("Wed, 21 Oct 2015 09:28:30 +0200", 30.0),
        (NOW, None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 -2359", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("-1", None),
        ("0", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_a_number_and_a_date_are_understood_and_nothing_else(value: object, seconds: float | None) -> None:
    assert retry_after_seconds(value, NOW) == seconds


def test_a_date_counts_by_the_clock_of_the_server_that_wrote_it() -> None:
    long_past = "Sun, 06 Nov 1994 08:49:37 GMT"
    assert retry_after_seconds("Sun, 06 Nov 1994 08:50:00 GMT", long_past) == 23
    assert retry_after_seconds("Sun, 06 Nov 1994 08:50:00 GMT") is None
    assert retry_after_seconds("Sun, 06 Nov 1994 08:50:00 GMT", "no date") is None
