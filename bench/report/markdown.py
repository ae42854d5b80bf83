"""Markdown tables."""

ABSENT = "–"


def number(value, digits=3):
    """With so many significant digits, and without an exponent."""
    if value is None:
        return ABSENT
    if value == 0:
        return "0"
    magnitude = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(digits - magnitude, 0)}f}"


def spread(found, digits=3):
    """The median, and in brackets smallest to largest."""
    if found is None:
        return ABSENT
    middle, least, most = (number(v, digits) for v in (found.median, found.smallest, found.largest))
    return f"{middle} ({least} to {most})"


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)
