"""What judging found: a verdict for each case, as text and as a table."""
import dataclasses
import math

from .tables import Rows

LABELS = {"passed": "PASS", "failed": "FAIL", "unsupported": "skip", "known limit": "LIMIT", "limit gone": "GONE"}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`verdict` is "passed", "failed", "unsupported", "known limit" (it failed, as a table of known limits says it does)
    or "limit gone" (it passed, where the table says that it fails). `reason` is one line, empty where passed. `errors`
    has an OutputError for each output."""
    problem: str
    name: str
    verdict: str
    reason: str = ""
    coverage: str = ""
    errors: tuple = ()
    protects: str = "-"

    @property
    def ok(self):
        return self.verdict not in ("failed", "limit gone")

    def __str__(self):
        lines = [f"{LABELS[self.verdict]:<5} {self.name}  {self.problem}"]
        if self.reason:
            lines.append(f"      {self.reason}")
        if self.errors:
            lines.append(f"      {', '.join(map(_error_text, self.errors))}; {self.coverage}")
        return "\n".join(lines)

    def row(self):
        """Column -> value; the columns of errors are named as in rows files (final_state_limit_ratio)."""
        row = {"problem": self.problem, "implementation": self.name, "verdict": self.verdict, "reason": self.reason}
        for error in self.errors:
            for metric in ("relative_l2", "floor_ratio", "limit_ratio", "non_finite"):
                row[f"{error.output}_{metric}"] = getattr(error, metric)
        return row


def _error_text(error):
    floors = "" if math.isnan(error.floor_ratio) else f"{error.floor_ratio:.1f}x floor, "
    return f"{error.output} {error.relative_l2:.2e} ({floors}{error.limit_ratio:.2g} of the limit)"


class Verdicts(Rows):
    """Verdicts in the order of their cases. As text: all that is not "passed", and how many there are of each; text(True)
    has every case."""
    markdown_columns = ("verdict", "implementation", "problem", "reason")

    @property
    def passed(self):
        """Whether something was judged and nothing failed."""
        return all(verdict.ok for verdict in self) and any(verdict.verdict != "unsupported" for verdict in self)

    def of(self, verdict):
        """Those of one verdict, as of("failed")."""
        return Verdicts(each for each in self if each.verdict == verdict)

    def text(self, every=False):
        shown = [str(each) for each in self if every or each.verdict not in ("passed", "unsupported")]
        counts = [f"{len(self.of(verdict))} {words}" for verdict, words in (
            ("passed", "passed"), ("failed", "failed"), ("known limit", "known limits"),
            ("unsupported", "not supported"), ("limit gone", "limits gone"))]
        return "\n".join([*shown, ", ".join(counts if self.of("limit gone") else counts[:-1])])

    __str__ = text

    def require(self):
        """Raises AssertionError with the text unless `passed`."""
        if not self.passed:
            raise AssertionError(self.text())
        return self
