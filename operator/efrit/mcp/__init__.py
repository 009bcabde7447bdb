"""The MCP server: Efrit's instances and requests as tools and resources of the Model Context Protocol.

Stands on `efrit.client.interface`, so it knows no more of a queue or of Kubernetes than its backend tells; only
`review` asks an API server who is calling. `app` starts it, `server` is the protocol's side, `calls` the work's.
Nothing is imported here.
"""
