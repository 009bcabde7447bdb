"""This machine as a backend: a queue directory for each instance, and an Emacs daemon started on demand.

No server stands between: `files` does in the directory what a bridge would, `daemon` looks after Emacs.
"""
