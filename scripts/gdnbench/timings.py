"""What timing found: a time and a verdict for each contender and case, as text and as a table."""
import dataclasses

from .tables import Rows
from .turns import quartiles
from .verdicts import LABELS, Verdict


@dataclasses.dataclass(frozen=True)
class Timing:
    """`samples_ms`: the time of each run in its order, none where there is no time. `launch`: what was timed, "call",
    "graph" or "eager", and `note` why it was no graph. `choice`: what the planner of an implementation chose."""
    verdict: Verdict
    samples_ms: tuple = ()
    device: str = ""
    launch: str = ""
    note: str = ""
    choice: str = ""
    bytes_moved: int = 0

    @property
    def problem(self):
        return self.verdict.problem

    @property
    def name(self):
        return self.verdict.name

    @property
    def time_ms(self):
        """The median; None where there is no time."""
        return quartiles(self.samples_ms)[1] if self.samples_ms else None

    @property
    def relative_spread(self):
        """Interquartile range over median."""
        if not self.samples_ms:
            return None
        first, median, third = quartiles(self.samples_ms)
        return (third - first) / median if median else 0.0

    @property
    def tb_per_s(self):
        """Bytes of each input once and each output once, over the time."""
        return self.bytes_moved / self.time_ms * 1e-9 if self.time_ms else None

    def __str__(self):
        first = f"{LABELS[self.verdict.verdict]:<5} {self.name}"
        if self.samples_ms:
            rate = "" if self.tb_per_s is None else f", {self.tb_per_s:.3g} TB/s"
            first += (f"  {self.time_ms:.4g} ms, spread {100 * self.relative_spread:.1f} %{rate}"
                      f"{'' if self.verdict.ok else '  (its outputs are wrong)'}{', eager' if self.note else ''}")
        return "\n".join([first, *(f"      {line}" for line in (self.verdict.reason, self.note) if line)])

    def row(self):
        """Column -> value; columns are named as in rows files."""
        found = self.verdict.row()
        row = {name: found.pop(name) for name in ("problem", "implementation", "verdict", "reason")}
        row |= {"device": self.device, "launch": self.launch, "note": self.note, "plan_choice": self.choice}
        first, median, third = quartiles(self.samples_ms) if self.samples_ms else (None,) * 3
        row |= {"time_ms": median, "time_first_quartile_ms": first, "time_third_quartile_ms": third,
                "time_min_ms": min(self.samples_ms, default=None), "time_max_ms": max(self.samples_ms, default=None),
                "time_relative_spread": self.relative_spread, "sample_count": len(self.samples_ms),
                "bytes_moved": self.bytes_moved, "tb_per_s": self.tb_per_s}
        return row | found


class Timings(Rows):
    """Timings in the order of their cases, and of a case in that of the contenders. As text: all of them, by case."""
    markdown_columns = ("problem", "implementation", "verdict", "time_ms", "time_relative_spread", "tb_per_s", "launch",
                        "device", "reason")

    @property
    def passed(self):
        """Whether something was judged and nothing failed."""
        return all(each.verdict.ok for each in self) and any(each.samples_ms for each in self)

    def text(self):
        lines, problem = [], None
        for each in self:
            if each.problem != problem:
                problem = each.problem
                lines.append(f"{problem}" + (f"  on {each.device}" if each.device else ""))
            lines.append(str(each))
        return "\n".join(lines)

    __str__ = text
