"""A library loaded into processes, which records and fails their calls on files and moves their clock."""
