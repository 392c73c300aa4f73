"""In which order contenders run: A B C, B C A, C A B, ... Whoever comes first in a round finds the GPU idle."""


def order_in_round(names, number):
    """All of `names`, those of round `number` (from 0) first that were second in the round before."""
    first = number % len(names)
    return names[first:] + names[:first]
