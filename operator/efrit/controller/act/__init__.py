"""Actions out: carries out what decide/ asked for, against the API server and the bridges. Decides nothing."""
