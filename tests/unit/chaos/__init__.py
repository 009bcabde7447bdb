"""The fault harness itself: schedules, invariants, and what reads their evidence."""
