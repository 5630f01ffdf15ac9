"""Array functions without parameters: the lowest level, which everything else may import."""
