"""Foundations of the package: errors, checks of input, files, the C compiler."""
