"""Measurements side by side: sides that take turns, ratios with their spread, a file for each."""
