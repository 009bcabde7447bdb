"""EfritPlan as pure Python: the task tree, the operations on it, the next request, the status and the report.

Imports `efrit.api`, `efrit.protocol`, `efrit.errors` and pydantic, nothing else of ours; does no I/O and reads no
clock. The controller drives `engine`, the clients print with `report`.
"""
