"""Faults of files: every step of the queue's protocol, crashes that lose what was not synced, full disks, clocks."""
