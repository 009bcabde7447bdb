"""What `make bench` makes of what it measured: figures, curves, and the run that is kept. Nothing here measures."""
