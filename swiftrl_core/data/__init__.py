"""Environments, the experience logged in them, and how good a table is there."""
