"""How resident memory grows over equal cycles of work."""

MEBIBYTE = 1 << 20


def growth(sizes):
    """What a cycle leaves behind on the average of the later ones, in bytes."""
    half = len(sizes) // 2
    return (sum(sizes[-half:]) - sum(sizes[:half])) / half / (len(sizes) - half)
