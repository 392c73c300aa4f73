"""Whether outputs are as close to the oracle's as the peer's test asks."""
import numpy as np

from .tensors import from_storage, to_storage


def failures(case, got, expected):
    """One line for each Compare of the case that `got` does not pass; both are dicts of float64 arrays by output.
    Bounds between two runs of one kernel (Compare.itself) are not looked at."""
    lines = []
    for compare in (each for each in case.compares if not each.itself):
        ours = got[compare.output]
        theirs = from_storage(to_storage(expected[compare.output], compare.dtype), compare.dtype)
        if ours.shape != theirs.shape:
            lines.append(f"{case.name}: {compare.output} has shape {ours.shape}, expected {theirs.shape}")
            continue
        if compare.entries is not None:
            ours, theirs = (np.take(array, list(compare.entries), compare.dimension) for array in (ours, theirs))
        error = np.abs(ours - theirs)
        if compare.absolute is not None:
            # NaN is never within a bound.
            outside = ~(error <= compare.absolute + compare.relative * np.abs(theirs))
            if outside.any():
                lines.append(f"{case.name}: {compare.output} differs in {outside.sum()} of {outside.size} elements, by "
                             f"up to {np.max(np.where(outside, error, 0))}, expected {compare.absolute} + "
                             f"{compare.relative} of the element at most")
            continue
        power, size = np.mean(np.square(error)), np.mean(np.square(theirs))
        with np.errstate(divide="ignore"):
            ratio = power / size if power else 0.0  # no difference is none of zeros either; NaN is one
        name, bound = ("nmse", compare.nmse) if compare.nmse is not None else ("rms_ratio", compare.rms_ratio)
        measured = ratio if name == "nmse" else np.sqrt(ratio)
        if error.size and not measured <= bound:
            lines.append(f"{case.name}: {compare.output} has {name} {measured}, expected {bound} at most")
    return lines
