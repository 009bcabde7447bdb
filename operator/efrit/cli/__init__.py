"""`efrit` and `kubectl efrit`: commands over `efrit.client`. What a command needs is imported when it is run."""
