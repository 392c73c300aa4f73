"""What the kernels do not take as it is yet, in one place. REFUSED refuses it, CONVERTED says it with what there is, at
the price of conversions on the device: 16-bit tokens beside float32 weights are widened to float32, heads that are
shared in another way than the grouped map are laid out once for each value head."""
from .calls import knows
from .tensors import unsupported

REFUSED, CONVERTED = "refused", "converted"

float32_weights = REFUSED
head_maps = REFUSED


def convolution_types(x, weight, bias):
    """(fields) of a convolution whose tokens, weights and bias are of these types."""
    types = {view.dtype for view in (weight, bias) if view is not None}
    if x.dtype == "f32" or types == {x.dtype}:
        return {"dtype": x.dtype}
    if types != {"f32"}:
        unsupported("weight", f"{' and '.join(sorted(types))} beside x of {x.dtype}, expected {x.dtype}")
    if knows("weights=f32"):
        return {"dtype": x.dtype, "weights": "f32"}
    if float32_weights == CONVERTED:
        return {"dtype": "f32"}
    unsupported("weight", f"float32 beside x of {x.dtype}: not built yet, expected weights of {x.dtype}")


def require_head_maps(argument, reason):
    """Refuses heads that are shared in another way than the grouped map, unless they may be laid out anew."""
    if head_maps != CONVERTED:
        unsupported(argument, f"{reason}: not built yet, expected value heads that share key heads in groups")
