"""The pod-side bridge: one queue served over HTTPS, one Emacs supervised.

Runs as a sidecar that starts before Emacs; `efrit.bridge.app` wires it. Knows nothing of Kubernetes:
docs/bridge.md has the API, the files and the environment it needs.
"""
