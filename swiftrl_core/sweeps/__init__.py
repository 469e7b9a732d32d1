"""Sweeps: many runs, each executed once, and the table of their rows."""
