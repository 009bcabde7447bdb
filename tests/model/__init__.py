"""A model's API that plays scenarios, for tests: real protocol, real socket, nothing but the standard library."""
