"""One look for all pictures: legible from the back of a room, and to colour-blind eyes."""

import matplotlib.pyplot as plt

# Okabe and Ito's palette, which stays apart under every common colour blindness.
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#777777"
CYCLE = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, BLACK)


def use() -> None:
    """Set the look for all figures of the notebook that follow."""
    plt.rcParams.update(
        {
            "figure.figsize": (8.0, 4.5),
            "figure.dpi": 90,
            "figure.constrained_layout.use": True,
            "font.size": 13,
            "axes.titlesize": 15,
            "axes.titlelocation": "left",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": plt.cycler(color=CYCLE),
            "image.cmap": "viridis",
            "legend.frameon": False,
            "lines.linewidth": 2.5,
        }
    )
