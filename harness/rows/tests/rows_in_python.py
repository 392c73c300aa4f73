"""Reads a rows file as the format's documentation says and prints what harness/tests compares.

    rows_in_python.py ROWS.h5
"""
import sys

import h5py

try:
    import pandas
except ImportError:
    pandas = None

path = sys.argv[1]
table = h5py.File(path)["rows"][()]
print("columns", len(table.dtype.names))
samples = h5py.File(path)["samples"]
errors = h5py.File(path)["errors"]
for row in table:
    first = row["first_sample"]
    times = samples["time_ms"][first:first + row["sample_count"]]
    print(row["implementation"].decode(), row["token_dtype"].decode(), f"{row['time_ms']:.9g}",
          f"{sorted(times)[len(times) // 2]:.9g}")
    first = row["first_error"]
    for error in errors[first:first + row["error_count"]]:
        print("error", error["row"], error["output"].decode(), error["metric"].decode(),
              error["first_token"], f"{error['value']:.9g}")
if pandas is None:
    print("pandas absent")
else:
    rows = pandas.DataFrame(h5py.File(path)["rows"][()])
    rows = rows.apply(lambda c: c.str.decode("utf-8") if c.dtype == object else c)
    print("pandas rows", len(rows[rows["implementation"] == "cpu/naive"]), rows["time_ms"].dtype)
    errors = pandas.DataFrame(h5py.File(path)["errors"][()])
    errors = errors.apply(lambda c: c.str.decode("utf-8") if c.dtype == object else c)
    print("pandas errors", len(errors[errors["output"] == "final_state"]), errors["value"].dtype)
    whole = errors[(errors["metric"] == "relative_l2") & (errors["first_token"] == -1)]
    for error in rows.join(whole.set_index("row")).itertuples():
        print("pandas joined", error.implementation, f"{error.value:.9g}")
