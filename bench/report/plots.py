"""Plots as SVG files that stand by themselves."""

import pygal
from pygal.style import CleanStyle

# Told apart by colour-blind readers, too (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00")


def _style():
    return CleanStyle(
        background="white",
        plot_background="white",
        colors=COLOURS,
        font_family="sans-serif",
        label_font_size=13,
        legend_font_size=13,
        title_font_size=15,
    )


def _common(title, x_title, y_title):
    # Without the scripts that show values under the mouse, which come from another site.
    return {
        "title": title,
        "x_title": x_title,
        "y_title": y_title,
        "js": (),
        "style": _style(),
        "width": 900,
        "height": 440,
        "truncate_legend": -1,
    }


def lines(file, title, x_title, y_title, xs, curves):
    """A curve for each name over the same, equally spaced `xs`; None leaves a gap."""
    chart = pygal.Line(**_common(title, x_title, y_title), dots_size=3, range=(0, _top(curves)))
    chart.x_labels = [str(x) for x in xs]
    for name, values in curves.items():
        if any(value is not None for value in values):
            chart.add(name, values)
    chart.render_to_file(str(file))


def bars(file, title, y_title, groups, parts):
    """Stacked bars: for each group its value of each part."""
    chart = pygal.StackedBar(**_common(title, None, y_title))
    chart.x_labels = groups
    for name, values in parts.items():
        chart.add(name, values)
    chart.render_to_file(str(file))


def _top(curves):
    values = [value for curve in curves.values() for value in curve if value is not None]
    return 1.05 * max(values, default=1)
