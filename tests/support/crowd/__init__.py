"""Many objects on a real API server, with simulated bridges: what the tests of the controller's memory stand on."""
