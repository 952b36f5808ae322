"""How many times a signal is mixed on its way from one word to a later one: read off the structure."""

from headwise.transformer.config import StackConfig


def path_length(stack: StackConfig, distance: int) -> int | None:
    """The fewest mixings between words so far apart; None where the later word cannot know the earlier one.

    Attention looks at any word at once. A convolution carries it over one filter a layer. A recurrence passes it on
    from word to word.
    """
    if stack.mixer == "attention" or distance == 0:
        return min(distance, 1)
    if stack.mixer in ("lstm", "gru"):
        return distance
    fewest = {0: 0}
    for layer in range(stack.layers):
        steps = [tap * stack.dilation(layer) for tap in range(stack.filter_width)]
        found: dict[int, int] = {}
        for place, mixings in fewest.items():
            for step in steps:
                if place + step <= distance:
                    found[place + step] = min(found.get(place + step, stack.layers), mixings + (step > 0))
        fewest = found
    return fewest.get(distance)


def reach(stack: StackConfig) -> int | None:
    """How many words back the last word can know of; None where there is no end."""
    if stack.mixer not in ("convolution", "dilated"):
        return None
    return (stack.filter_width - 1) * sum(stack.dilation(layer) for layer in range(stack.layers))
