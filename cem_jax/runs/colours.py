"""The colours and markers of pictures with several lines."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's, which colour-blind readers tell apart; their yellow is left out on white."""

MARKERS = "osD^vPX"
"""One for each colour, for readers without any."""
