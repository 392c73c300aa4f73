"""What the kernels do not take as it is yet, in one place. REFUSED refuses it, CONVERTED says it with what there is, at
the price of conversions on the device: heads that are shared in another way than the grouped map are laid out once for
each value head."""
from .tensors import unsupported

REFUSED, CONVERTED = "refused", "converted"

head_maps = REFUSED


def require_head_maps(argument, reason):
    """Refuses heads that are shared in another way than the grouped map, unless they may be laid out anew."""
    if head_maps != CONVERTED:
        unsupported(argument, f"{reason}: not built yet, expected value heads that share key heads in groups")
