"""The contestants of the tables side by side, and where each beats ours."""

from rounds import series

OURS = "replay"
# What a client sees of a server, by the words that its series begin with.
CLIENTS = {"client": "our server, client", "python backend client": "Python backend, client"}
PEERS = {"jax": "jitted JAX", "torch": "PyTorch, eager", "llama.cpp": "llama.cpp"}
# Programs in a loop of their own, and with the clients of servers.
PROGRAMS = {OURS: "ours, replay", **PEERS}
NAMES = {**PROGRAMS, **CLIENTS}


def decodes(plan):
    """(name of the point, series of a contestant there) of all decode steps."""
    return [
        (f"decode of {batch} row(s) at {context}", batch, context)
        for batch, context in plan.effort.decodes
    ]


def ahead(results, plan):
    """(peer, point, ratio) of every point where a peer takes less time than our program.

    Ratios are of the peer's time to ours, at most 0.97: less is noise.
    """
    points = [
        (name, lambda who, b=batch, c=context: series.decode(who, b, c))
        for name, batch, context in decodes(plan)
    ]
    points += [
        (f"prefill of {tokens}", lambda who, t=tokens: series.prefill(who, t))
        for tokens in plan.effort.prompts
    ]
    found = []
    for who in PEERS:
        for name, of in points:
            ratio = results.ratio(of(who), of(OURS))
            if ratio and ratio.median <= 0.97:
                found.append((PEERS[who], name, ratio))
    return found
