"""Many runs: variants of a configuration, each with several seeds, and what they show together."""
