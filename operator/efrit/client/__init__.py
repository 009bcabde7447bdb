"""One client, two backends: a cluster (custom resources) and this machine (the same queue, a local Emacs).

`efrit.client.interface` is what a program builds on, `efrit.client.backends` opens a backend. Nothing is imported
here: the command line pays for every module.
"""
