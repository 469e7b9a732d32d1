"""Many runs: each one's row kept, none run twice, and tables made of them."""
