"""The controller: watch -> decide -> act. app.py wires the three."""
