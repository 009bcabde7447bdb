"""The one statistic of the benchmarks that the standard library has only in another form."""


def quantile(values: list[float], share: float) -> float:
    """Return the value at this share (0 to 1) by nearest rank."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]
