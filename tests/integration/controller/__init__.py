"""The controller as a process, on a real API server, with real bridges and a real Emacs as pods."""
