"""In-context regression on Gaussian processes: CEM attention beside the exact Bayes predictor."""
