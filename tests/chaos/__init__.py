"""Faults on real processes: the tests that no request is lost and none runs twice."""
