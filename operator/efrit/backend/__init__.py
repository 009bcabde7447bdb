"""What does the work: `interface` is the vocabulary, with one `Backend` for a cluster and one for this machine.

A cluster has custom resources, this machine the same queue with a local Emacs; `open` opens the one that is meant.
Nothing is imported here: an eval on this machine pays for every module, so each is imported by its own name.
"""
