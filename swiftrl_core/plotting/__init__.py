"""Style, captions and intervals that all figures share."""
