"""Hosts that share a queue: namespaces of their own, each with a mount that remembers what it has seen."""
