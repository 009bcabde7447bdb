"""Markers in the product's sources, and what an operation makes of a marked file, language by language."""
