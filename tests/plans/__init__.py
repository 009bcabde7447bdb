"""What tests of plans have in common, on whatever they run: a model's words as a script, and one whole example."""
