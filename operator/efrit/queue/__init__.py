"""The durable file queue: one directory, shared with an Emacs that runs what lies in it.

Uses `efrit.protocol` for what the files hold; knows nothing of HTTP or Kubernetes. The protocol, its
promises and who may write what: docs/queue.md.
"""
