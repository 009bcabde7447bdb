"""What the packages of the controller share: keys, snapshots, actions, names, credentials."""
