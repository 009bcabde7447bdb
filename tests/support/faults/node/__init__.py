"""The cluster tier: the installed operator on the bare node, whose programs and network can be hurt."""
