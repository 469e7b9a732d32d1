"""What all figures share: style, captions, intervals."""
