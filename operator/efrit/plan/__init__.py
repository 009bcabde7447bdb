"""EfritPlan as pure Python: the task tree, what may be done to it, what is asked next, what people see of it.

Imports `efrit.api`, `efrit.protocol`, `efrit.errors` and pydantic, nothing else of ours; does no I/O and reads no
clock. The controller drives `engine`, the clients print with `report`.
"""
