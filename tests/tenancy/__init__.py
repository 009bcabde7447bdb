"""What one tenant can do to another: a real API server and a real controller. Order and counts, never times."""
