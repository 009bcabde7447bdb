"""The test cluster: one real Kubernetes node on one machine, with Docker (kind) or without (bare).

Run as ``python3 -m tests.cluster COMMAND`` from the repository root; README.md beside this file lists the
commands. Standard library only, so that it runs before anything else of the project is installed.
"""
