"""The experiments are of the checkout, and import the package that is installed."""

import pathlib
import sys

# At the end: the checkout also holds the package, and what is tested is the installed one.
sys.path.append(str(pathlib.Path(__file__).parents[2]))
