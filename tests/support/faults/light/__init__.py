"""The light tier: controllers and pods are processes of this machine, on a real API server."""
