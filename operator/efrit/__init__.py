"""Efrit operator: resident Emacs daemons as Kubernetes resources."""

__version__ = "0.1.0"
