"""Entry point of `efrit-bridge`: hides the process before anything is imported that takes time.

Emacs runs as the same user in the same process namespace. What is left is the start of Python itself.
"""

from efrit.bridge.process import hide_from_emacs


def main() -> None:
    """Run the bridge."""
    hide_from_emacs()
    from efrit.bridge.app import main as run  # Takes most of a second.

    run()
