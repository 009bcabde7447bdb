"""The custom resource definitions against a real API server: what they accept, refuse, fill in and show."""
