"""Structured output made from what a backend returns; tools and resources share it. Nothing is imported here."""
