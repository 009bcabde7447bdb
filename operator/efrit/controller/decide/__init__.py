"""Pure functions from (snapshot, now) to actions. Nothing here awaits, logs, reads a clock or talks to anyone."""
