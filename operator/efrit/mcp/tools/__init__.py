"""The tools: each one is a `Tool` with its arguments, its handler and what it may do. Nothing is imported here."""
