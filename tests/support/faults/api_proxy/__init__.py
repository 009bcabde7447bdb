"""A proxy between one controller and the API server, which injects faults into calls and watches."""
