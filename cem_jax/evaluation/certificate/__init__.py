"""`cem verify`: every layer in three columns, in plain JAX, as shipped, and written by hand."""
