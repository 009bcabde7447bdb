"""`efrit` and `kubectl efrit`: commands over `efrit.backend`. What a command needs is imported when it is run."""
