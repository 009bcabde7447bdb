"""The MCP server: Efrit's instances and requests as tools and resources of the Model Context Protocol.

It works through `efrit.backend.interface` and knows queues and Kubernetes only by its backend; `access_review` alone
asks an API server who is calling. `app` starts the server, `server` speaks the protocol, `tools` defines the tools.
Nothing is imported here.
"""
