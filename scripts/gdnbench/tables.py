"""Lists whose items have a row(): as dictionaries with the same columns, as a pandas.DataFrame, as Markdown."""


class Rows(list):
    markdown_columns = None  # those that markdown() shows unless it is told; None: all

    def rows(self):
        """A dictionary for each item, all with the same columns."""
        rows = [each.row() for each in self]
        columns = dict.fromkeys(column for row in rows for column in row)
        return [{column: row.get(column) for column in columns} for row in rows]

    def table(self):
        """A pandas.DataFrame where pandas is installed, else rows()."""
        try:
            import pandas
        except ImportError:
            return self.rows()
        return pandas.DataFrame(self.rows())

    def markdown(self, columns=None):
        """A Markdown table; a column that would be empty is left out."""
        rows = self.rows()
        names = columns or self.markdown_columns or list(rows[0] if rows else ())
        names = [name for name in names if any(row.get(name) not in (None, "") for row in rows)]
        lines = [names, [":--" if any(isinstance(row.get(name), str) for row in rows) else "--:" for name in names],
                 *([_cell(row.get(name)) for name in names] for row in rows)]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n" if names else ""


def _cell(value):
    if value is None or value != value:  # NaN is unlike itself
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
