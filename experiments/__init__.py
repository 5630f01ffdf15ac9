"""One folder per question: how it was asked, what was run, what came of it."""
