"""Virtual PIM cores on the host's own cores."""
