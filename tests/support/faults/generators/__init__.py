"""Schedules from seeds: pure functions of a seed, one module for each tier and what they share."""
