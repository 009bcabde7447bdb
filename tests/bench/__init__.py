"""Figures, never a verdict: `make bench` prints what it measured and fails only where nothing could be measured."""
