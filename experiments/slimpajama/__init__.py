"""The paper's scale: what it would cost, and how to run it. Not run here."""
