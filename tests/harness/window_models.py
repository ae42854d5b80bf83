"""The examples with sliding layers, and the arithmetic of their rings."""

WINDOW = 8
BLOCK = 4
NUM_BLOCKS = 65
IMAGE, VIDEO = 62, 63
# Keys and values of three layers.
POOLS = 6
# Ring pages of a sequence, without a prefill chunk and with one of 6 tokens.
RING = 3
CHUNK, CHUNKED_RING = 6, 4
WINDOWED_BLOCKS, CHUNKED_WINDOWED_BLOCKS = 13, 17


def pages(length, ring):
    """KV pages and ring pages that a sequence of this length holds; a full pool has no ring."""
    held = -(-length // BLOCK)
    return held, min(ring, held)


def calls(start, tokens, ring, chunk=None):
    """How many tokens go into each call of a request that begins at this position.

    A call writes all its KV before a row attends, so it must not write over what its
    first row still sees.
    """
    counts = []
    while tokens:
        most = max(1, ring * BLOCK - min(start, WINDOW - 1))
        counts.append(min(tokens, most, chunk or most))
        start += counts[-1]
        tokens -= counts[-1]
    return counts
