"""Faults on the bare node: fixed schedules, executed side by side."""
