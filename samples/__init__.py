"""What the README's first command applies and shows."""
