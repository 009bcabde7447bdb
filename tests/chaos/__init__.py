"""Faults on real processes, and the proof that nothing is lost and nothing runs twice."""
