"""Small language models: the claims about attention, MLP, recursion and preconditioners."""
