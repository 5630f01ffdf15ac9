"""What is known about a model or a layer: perplexity, certificates of equality, diagnostics."""
