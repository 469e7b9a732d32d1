"""The round loop and the host's part of it: aggregation, synchronisation, counting."""
