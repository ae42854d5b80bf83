"""How a peer that stays between rounds is asked.

Requests come on standard input, one a line, and each is answered with one line of JSON:

    decode ROWS CONTEXT POSITION STEPS      {"milliseconds": median}
    prefill TOKENS REPEATS                  {"milliseconds": median}
    ids COUNT TOKEN...                      {"ids": [greedy ids that follow]}
"""

import json
import statistics
import sys

# Calls before the first that counts.
WARM_UP = 3


def serve(worker):
    """Answer until the input ends.

    The worker's `decode` and `prefill` return seconds of each call, `ids` a list.
    """
    for line in sys.stdin:
        request, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        if request == "ids":
            count, *prompt = numbers
            answer = {"ids": worker.ids(count, prompt)}
        else:
            measure = {"decode": worker.decode, "prefill": worker.prefill}[request]
            answer = {"milliseconds": 1e3 * statistics.median(measure(*numbers))}
        print(json.dumps(answer), flush=True)
