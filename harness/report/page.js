// The page: rows from the embedded JSON, filters, the table, and which points each plot shows.
"use strict";

const data = JSON.parse(document.getElementById("report-data").textContent);
const columnNames = data.columns.map((column) => column.name);
const toRows = (records) => records.map((record) =>
  Object.fromEntries(record.map((value, i) => [columnNames[i], value])));
const rows = toRows(data.rows);
const baselineRows = toRows(data.baseline);
const pastRuns = data.history.map((run) => ({ label: run.label, rows: toRows(run.rows) }));

function element(parent, name, text, attributes) {
  const made = document.createElement(name);
  if (text !== undefined && text !== null) made.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (parent) parent.appendChild(made);
  return made;
}
const distinct = (values) => [...new Set(values)];
const byId = (id) => document.getElementById(id);
function save(name, type, text) {
  const link = element(document.body, "a", "", { download: name });
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
// RFC 4180; numbers in full.
function csv(header, lines) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  };
  return [header, ...lines].map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

// ---- what rows are told apart by
// A convolution's own channels belong to no heads; 0 are those of heads.
const pair = (first, separator, second) => first === null ? null : `${first}${separator}${second}`;
const heads = (row) => pair(row.num_key_heads, "/", row.num_value_heads);
const dims = (row) => pair(row.key_head_dim, "x", row.value_head_dim);
const channels = (row) => row.channels ? String(row.channels) : null;
const uniform = (row) => row.num_sequences * row.longest_sequence === row.total_tokens;
const shape = (row) =>
  uniform(row) ? `${row.num_sequences}x${binaryKilo(row.longest_sequence)}` : row.sequences;
const deviceName = (row) => `${row.device} (${row.backend})`;
// Outputs that rows have errors of: columns OUTPUT_relative_l2.
const outputs = columnNames.filter((name) => name.endsWith("_relative_l2"))
  .map((name) => name.slice(0, -"_relative_l2".length));
const words = (name) => name.replaceAll("_", " ");
const isTimed = (row) => row.status === "ok" && row.time_ms !== null;
// A field that the row's operation does not look at is null: nothing is said of it.
const textOf = (value) => value === null ? null : String(value);
const labels = {
  operation: (row) => row.operation, heads, dims, channels, shape,
  tokens: (row) => row.token_dtype, output: (row) => row.output_dtype,
  state: (row) => row.state_dtype, layout: (row) => row.state_layout,
  "initial state": (row) => row.initial_state, gates: (row) => row.gates,
  betas: (row) => row.betas, keys: (row) => row.keys,
  update: (row) => row.update, steps: (row) => textOf(row.steps),
  decay: (row) => row.decay === null ? null : `per ${row.decay}`,
  "qk norm": (row) => textOf(row.normalize_qk), chunk: (row) => String(row.requested_chunk),
  seed: (row) => String(row.seed), "case file": (row) => row.case_file, mode: (row) => row.mode,
  device: deviceName };
const varying = Object.keys(labels).filter((name) => distinct(rows.map(labels[name])).length > 1);
// Everything that sets a row apart but the names given; what is the same in all rows is not said.
function setting(row, without) {
  return varying.filter((name) => !without.includes(name) && labels[name](row) !== null)
      .map((name) => `${name} ${labels[name](row) || "none"}`).join(", ") || "all rows";
}

// ---- summary
function showSummary() {
  byId("origin").textContent = `${rows.length} rows, made by: ${data.command} (gdnbench ${data.version})`;
  for (const name of distinct(rows.map(deviceName))) {
    const here = rows.filter((row) => deviceName(row) === name);
    const texts = (column) => distinct(here.map((row) => row[column])).filter(Boolean).join(", ");
    const best = (column) => Math.max(0, ...here.map((row) => row[column] || 0));
    const dates = here.map((row) => row.date).filter(Boolean).sort();
    const list = element(byId("summary"), "dl");
    const say = (term, text, css) => {
      if (!text) return;
      element(list, "dt", term);
      element(list, "dd", text, css ? { class: css } : {});
    };
    say("Device", name);
    say("Driver, toolkit", [texts("driver_version"), texts("toolkit_version")].filter(Boolean).join("; "));
    say("SMs, CUs or threads", texts("multiprocessors"));
    say("Dates", distinct([dates[0], dates[dates.length - 1]]).filter(Boolean).join(" to "));
    say("Implementations", texts("implementation"));
    say("Status", distinct(here.map((row) => row.status)).map((status) =>
      `${here.filter((row) => row.status === status).length} ${status}`).join(", "),
      here.some((row) => row.status === "failed" || row.status === "device_failure") ? "bad" : "");
    say("Measured ceilings", [["ceiling_copy_tb_per_s", "TB/s copy"],
                              ["ceiling_matrix_tflops", "TFLOP/s 16-bit matrix"],
                              ["ceiling_float32_tflops", "TFLOP/s float32"]]
      .filter(([column]) => best(column) > 0)
      .map(([column, unit]) => `${significant(best(column), 3)} ${unit}`).join(", "));
    say("Power", here.some((row) => row.power_w > 0)
      ? `at most ${significant(best("power_w"), 3)} W of ${significant(best("power_limit_w"), 3)} W, ` +
        `memory clock ${significant(best("memory_clock_mhz"), 4)} MHz` : "");
    say("Times", here.some((row) => row.modelled_time) ? "from a model, not from a clock" : "", "bad");
    say("Sources", distinct(here.map((row) => row.source_hash.slice(0, 12))).join(", "));
    const commands = distinct(here.map((row) => row.command));
    for (const command of commands.slice(0, 12)) say("Command", command);
    if (commands.length > 12) say("Command", `and ${commands.length - 12} more, in the rows' column "command"`);
  }
}

// ---- filter
const filterColumns = {
  operation: labels.operation, implementation: (row) => row.implementation, heads, dims, channels,
  shape, tokens: labels.tokens, gates: labels.gates, update: labels.update,
  steps: labels.steps, decay: labels.decay, mode: labels.mode,
  status: (row) => row.status, device: deviceName };
const chosen = {};
let search = "";
let shownRows = rows;
function showFilters() {
  for (const [name, text] of Object.entries(filterColumns)) {
    const values = distinct(rows.map(text));
    if (values.length < 2) continue;
    const select = element(element(byId("filters"), "label", name), "select", "",
                           { id: "filter-" + name });
    element(select, "option", "all", { value: "" });
    values.forEach((value, i) => element(select, "option", value || "none", { value: i + 1 }));
    select.addEventListener("change", () => {
      chosen[name] = select.value === "" ? undefined : values[Number(select.value) - 1];
      update();
    });
  }
  const input = element(element(byId("filters"), "label", "any text"), "input", "",
                        { type: "search", id: "search", placeholder: "words that a row shows" });
  input.addEventListener("input", () => { search = input.value.toLowerCase(); update(); });
}
// Of a row what the table shows of it now: a command that nobody sees would find every row.
function visibleText(row) {
  return shownColumns().map(([, value]) => cellText(value(row))).join("\n").toLowerCase();
}
function passes(row) {
  if (!Object.entries(filterColumns).every(([name, text]) =>
        chosen[name] === undefined || text(row) === chosen[name])) return false;
  const words = search.split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const visible = visibleText(row);
  return words.every((word) => visible.includes(word));
}

// ---- table
const scaled = (column, factor) => (row) => row[column] === null ? null : row[column] * factor;
const known = (column) => (row) => row[column] > 0 ? row[column] * 100 : null;
const usualColumns = [
  ["implementation", (row) => row.implementation], ["operation", (row) => row.operation],
  ["shape", shape], ["heads", heads], ["dims", dims],
  ...(rows.some(channels) ? [["channels", channels]] : []), ["tokens", (row) => row.token_dtype],
  ["gates", (row) => row.gates], ["mode", (row) => row.mode],
  ["chunk", (row) => row.chunk || null], ["ms", (row) => row.time_ms],
  ["spread %", scaled("time_relative_spread", 100)], ["Kt/s", scaled("tokens_per_s", 1e-3)],
  ["TFLOP/s", (row) => row.chunkwise_tflops], ["% of compute", known("fraction_of_compute")],
  ["% of bandwidth", known("fraction_of_bandwidth")],
  ...outputs.filter((name) => rows.some((row) => row[`${name}_floor_ratio`] !== null))
    .map((name) => [`${words(name)} error / floor`, (row) => row[`${name}_floor_ratio`]]),
  ...outputs.filter((name) => rows.some((row) => row[`${name}_limit_ratio`] !== null))
    .map((name) => [`${words(name)} error / limit`, (row) => row[`${name}_limit_ratio`]]),
  ["status", (row) => row.status],
  ["reason", (row) => row.reason]];
const everyColumn = data.columns.map((column) => [column.name, (row) => row[column.name], column.help]);
const shownColumns = () => byId("all-columns").checked ? everyColumn : usualColumns;
const cellText = (value) => typeof value === "number" ? significant(value)
                          : value === null || value === undefined ? "" : String(value);
let sorted = { name: null, down: false };
function showTable() {
  const columns = shownColumns();
  const table = byId("rows");
  table.replaceChildren();
  const line = element(element(table, "thead"), "tr");
  let order = shownRows;
  for (const [name, value, help] of columns) {
    const down = sorted.name === name && sorted.down;
    const mark = sorted.name !== name ? "" : down ? " \u25bc" : " \u25b2";
    const cell = element(line, "th", null, { scope: "col" });
    if (mark) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    const button = element(cell, "button", name + mark, { type: "button", title: help || name });
    button.addEventListener("click", () => {
      sorted = { name, down: sorted.name === name && !sorted.down };
      showTable();
    });
    if (!mark) continue;
    const compare = (a, b) => typeof a === "number" && typeof b === "number"
      ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
    order = [...shownRows].sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === null || y === null) return (x === null) - (y === null);  // without a value: last
      return down ? compare(y, x) : compare(x, y);
    });
  }
  const body = element(table, "tbody");
  for (const row of order) {
    const tr = element(body, "tr", null, row.status === "ok" ? {} : { class: "not-ok" });
    for (const [, value] of columns) {
      const v = value(row);
      const text = cellText(v);
      element(tr, "td", text, typeof v === "number" ? { class: "number" }
                              : text.length > 30 ? { class: "text" } : {});
    }
  }
  byId("row-count").textContent = `${shownRows.length} of ${rows.length} rows`;
}

// ---- plots. Each takes points out of the filtered rows, one setting at a time.
const describe = (row, value) => `${row.implementation}, ${shape(row)}: ${value}\n${row.problem}`;
const withChunk = (row) =>
  row.implementation + (row.requested_chunk ? ` chunk ${row.requested_chunk}` : "");
// Lengths at constant tokens, and at a constant number of sequences.
function lengthSettings(row, without) {
  const rest = setting(row, ["shape", "chunk", ...without]);
  return [`${binaryKilo(row.total_tokens)} tokens in all, ${rest}`,
          `${row.num_sequences} sequence${row.num_sequences === 1 ? "" : "s"}, ${rest}`];
}
const point = (row, x, y, series, unit) => ({
  x, y, series, row, title: describe(row, `${significant(y)} ${unit}`) });

// Error of each output, over its rounding floor where it is measured in floors, else over the limit
// of what the arithmetic allows.
const errorChoices = Object.fromEntries([
  ...outputs.map((name) => [`${words(name)} / floor`, [`${name}_floor_ratio`, "floors"]]),
  ...outputs.map((name) => [`${words(name)} / limit`, [`${name}_limit_ratio`, "of the limit"]])]);
const relativeErrors = Object.fromEntries(
  outputs.map((name) => [`${words(name)} error`, [`${name}_relative_l2`]]));

const plots = [
  { id: "throughput", title: "Throughput over length", connect: true,
    x: { label: "tokens per sequence", kind: "powers" }, y: { label: "thousand tokens/s" },
    shown: { "Kt/s": null },
    settings: (row) => isTimed(row) && uniform(row) && row.tokens_per_s > 0
      ? lengthSettings(row, []) : [],
    point: (row) => {
      const p = point(row, row.longest_sequence, row.tokens_per_s / 1e3, withChunk(row), "Kt/s");
      p.low = p.y * row.time_ms / row.time_third_quartile_ms;
      p.high = p.y * row.time_ms / row.time_first_quartile_ms;
      return p;
    } },
  { id: "error-length", title: "Error over length", connect: true,
    x: { label: "tokens per sequence", kind: "powers" }, y: { label: "error, as chosen" },
    shown: errorChoices,
    settings: (row, [column]) => row.status === "ok" && uniform(row) && row[column] > 0
      ? lengthSettings(row, ["mode"]) : [],
    point: (row, [column, unit]) =>
      point(row, row.longest_sequence, row[column], withChunk(row), unit) },
  { id: "error-position", title: "Error over position in the sequence, worst head", connect: true,
    x: { label: "first token of the window", kind: "linear" },
    y: { label: "relative L2", kind: "log" },
    shown: Object.fromEntries(outputs.map((name) => [words(name), [name]])),
    settings: (row, [name]) => row.status === "ok" && positionErrors(row, name).length > 1
      ? [setting(row, ["chunk", "mode"])] : [],
    points: (row, [name]) => positionErrors(row, name).map(([token, error]) =>
      point(row, token, error, withChunk(row), `at token ${token}`)) },
  { id: "error-implementation", title: "Error by implementation",
    x: { label: "implementation", kind: "names" }, y: { label: "error, as chosen" },
    shown: errorChoices,
    settings: (row, [column]) => row.status === "ok" && row[column] > 0
      ? ["all settings", ...varying.includes("gates") && row.gates !== null ? ["gates " + row.gates] : []]
      : [],
    point: (row, [column, unit]) =>
      point(row, row.implementation, row[column], row.token_dtype + " tokens", unit) },
  { id: "roofline", title: "Roofline: chunkwise rate over arithmetic intensity",
    x: { label: "FLOP per byte of compulsory input and output", kind: "log" },
    y: { label: "TFLOP/s", kind: "log" }, shown: { "TFLOP/s": null },
    settings: (row) => isTimed(row) && row.chunkwise_tflops > 0 && row.tb_per_s > 0
      ? [`${deviceName(row)}, ${row.token_dtype === "f32" ? "float32" : "16-bit"} tokens, ${row.mode}`]
      : [],
    point: (row) => point(row, row.chunkwise_tflops / row.tb_per_s, row.chunkwise_tflops,
                          row.implementation, "TFLOP/s"),
    ceilings: rooflineCeilings },
  { id: "chunk", title: "Time and workspace over chunk size", connect: true,
    x: { label: "tokens per chunk", kind: "powers" }, y: { label: "" },
    shown: { "time in ms": [(row) => row.time_ms, "ms"],
             "workspace in MiB": [(row) => row.workspace_bytes / 1048576, "MiB"],
             "peak memory in MiB": [peakMemory, "MiB"] },
    settings: (row, [value]) => isTimed(row) && row.chunk > 0 && value(row) > 0
      ? [setting(row, ["chunk"])] : [],
    point: (row, [value, unit]) => {
      const p = point(row, row.chunk, value(row), row.implementation, unit);
      if (unit === "ms") [p.low, p.high] = [row.time_first_quartile_ms, row.time_third_quartile_ms];
      return p;
    } },
  { id: "drift", title: "Drift: this run over the baseline", x: { label: "implementation", kind: "names" },
    y: { label: "now / baseline", kind: "log" }, one: true,
    shown: { ...relativeErrors, "time": ["time_ms"] },
    settings: (row, [column]) => row.status === "ok" && row[column] > 0 && baselineOf(row, column) > 0
      ? ["all settings"] : [],
    point: (row, [column]) => point(row, row.implementation, row[column] / baselineOf(row, column),
                                    row.token_dtype + " tokens", "x the baseline") },
  { id: "history", title: "History: each run over the first", connect: true,
    x: { label: "run", kind: "names" }, y: { label: "over the first run", kind: "log" }, one: true,
    shown: { ...relativeErrors, "time": ["time_ms"] },
    settings: (row, [column]) => pastValues(row, column).length > 1 ? [row.problem] : [],
    points: (row, [column]) => {
      const past = pastValues(row, column);
      return past.map(([label, value]) =>
        point(row, label, value / past[0][1], row.implementation, `x the first, in ${label}`));
    } },
];

// "0:0.0012 64:0.0013 ...": windows of tokens and the error in each.
function positionErrors(row, output) {
  return (row[`${output}_error_by_position`] || "").split(" ").filter(Boolean)
    .map((window) => window.split(":").map(Number)).filter(([, error]) => error > 0);
}
// Inputs, outputs, states and workspace; 0 where a file does not say.
function peakMemory(row) {
  return row.case_bytes > 0 ? (row.case_bytes + row.workspace_bytes) / 1048576 : 0;
}
// [label of the run, value] of every run that has a right row of this problem and implementation;
// times are held to the mode and device, too.
function pastValues(row, column) {
  const values = [];
  for (const run of pastRuns) {
    const then = run.rows.find((other) => other.problem === row.problem &&
      other.implementation === row.implementation && other.status === "ok" && other[column] > 0 &&
      (column !== "time_ms" || (other.mode === row.mode && other.device === row.device)));
    if (then) values.push([run.label, then[column]]);
  }
  return values;
}

// Errors are held to the stored row of problem and implementation; times to the mode and device, too.
const baselineKeys = new Map();
for (const row of baselineRows) {
  baselineKeys.set([row.problem, row.implementation].join("\n"), row);
  baselineKeys.set([row.problem, row.implementation, row.mode, row.device].join("\n"), row);
}
function baselineOf(row, column) {
  const key = [row.problem, row.implementation];
  if (column === "time_ms") key.push(row.mode, row.device);
  const stored = baselineKeys.get(key.join("\n"));
  return stored ? stored[column] : null;
}

function rooflineCeilings(points) {
  const top = (column) => Math.max(0, ...points.map((p) => p.row[column] || 0));
  const copy = top("ceiling_copy_tb_per_s");
  const narrow = points[0].row.token_dtype !== "f32";
  const matrix = narrow && top("ceiling_matrix_tflops") > 0;
  const compute = matrix ? top("ceiling_matrix_tflops") : top("ceiling_float32_tflops");
  if (!(copy > 0) || !(compute > 0)) return [];
  const xs = points.map((p) => p.x);
  const ridge = compute / copy;
  const low = Math.min(...xs, ridge / 4), high = Math.max(...xs, ridge * 4);
  return [{ points: [[low, low * copy], [ridge, compute]], text: `${significant(copy, 3)} TB/s` },
          { points: [[ridge, compute], [high, compute]],
            text: `${significant(compute, 3)} TFLOP/s ${matrix ? "16-bit matrix" : "float32"}` }];
}

// What a row puts in a plot: one point, or several.
const pointsOf = (spec, row, shown) => spec.points ? spec.points(row, shown) : [spec.point(row, shown)];

function allSeries(spec) {
  const shown = Object.values(spec.shown)[0] || [];
  const names = [];
  for (const row of rows) {
    for (const choice of Object.values(spec.shown)) {
      if (spec.settings(row, choice || shown).length) names.push(pointsOf(spec, row, choice || shown)[0].series);
    }
  }
  return distinct(names).sort();
}

// Runs of the history in its order, whichever row has the first of them; other names as they come.
const inOrder = (names) => {
  const runs = pastRuns.map((run) => run.label).filter((label) => names.includes(label));
  return runs.length === names.length ? runs : names;
};

const drawn = [];
function makePlot(spec) {
  const figure = element(byId("plots"), "figure", null, { id: "plot-" + spec.id });
  element(figure, "figcaption", spec.title);
  const note = element(figure, "p", "", { class: "note" });
  const controls = element(figure, "div", null, { class: "choices" });
  const what = element(element(controls, "label", "shown"), "select");
  for (const name of Object.keys(spec.shown)) element(what, "option", name);
  what.parentNode.hidden = Object.keys(spec.shown).length < 2;
  const where = element(element(controls, "label", "setting"), "select");
  const svgButton = element(controls, "button", "SVG", { type: "button" });
  const csvButton = element(controls, "button", "CSV", { type: "button" });
  const place = element(figure, "div");
  const series = allSeries(spec);
  let points = [];

  function draw() {
    const shown = spec.shown[what.value] || [];
    const groups = new Map();
    for (const row of shownRows) {
      for (const name of spec.settings(row, shown)) {
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push(...pointsOf(spec, row, shown));
      }
    }
    // Most telling first: of the operation with the most rows, the setting with the most different
    // places on the x axis.
    const ofOperation = new Map();
    for (const row of shownRows) ofOperation.set(row.operation, (ofOperation.get(row.operation) || 0) + 1);
    const most = (list) => Math.max(0, ...list.map((p) => ofOperation.get(p.row.operation)));
    const spread = (list) => distinct(list.map((p) => p.x)).length * 1e4 + list.length;
    const names = [...groups.keys()].sort((a, b) =>
      most(groups.get(b)) - most(groups.get(a)) || spread(groups.get(b)) - spread(groups.get(a)));
    const before = where.value;
    where.replaceChildren();
    for (const name of names) element(where, "option", name);
    if (names.includes(before)) where.value = before;
    points = groups.get(where.value) || [];
    place.replaceChildren();
    svgButton.disabled = csvButton.disabled = points.length === 0;
    note.textContent = points.length ? where.value : "No row of the filter has what this plot shows.";
    if (points.length === 0) return;
    const ys = points.map((p) => p.y);
    const wide = Math.max(...ys) / Math.min(...ys) > 30;
    const ceilings = spec.ceilings ? spec.ceilings(points) : [];
    const corners = ceilings.flatMap((ceiling) => ceiling.points);
    const xs = points.map((p) => p.x).concat(spec.x.kind === "names" ? [] : corners.map((c) => c[0]));
    place.appendChild(drawPlot({
      title: `${spec.title}: ${where.value}`, connect: spec.connect, points, ceilings,
      x: { ...spec.x, names: inOrder(distinct(xs)), values: xs },
      y: { label: spec.y.label || what.value, kind: spec.y.kind || (wide ? "log" : "linear") },
      yAlso: corners.map((c) => c[1]).concat(spec.one ? [1] : []) },
      Math.max(320, Math.min(1160, figure.clientWidth || 760)), series));
  }
  what.addEventListener("change", draw);
  where.addEventListener("change", draw);
  svgButton.addEventListener("click", () =>
    save(`${spec.id}.svg`, "image/svg+xml", standaloneSvg(place.firstChild)));
  csvButton.addEventListener("click", () =>
    save(`${spec.id}.csv`, "text/csv", csv(
      ["series", spec.x.label, spec.y.label || what.value, "first_quartile", "third_quartile", "problem"],
      points.map((p) => [p.series, p.x, p.y, p.low, p.high, p.row.problem]))));
  drawn.push(draw);
}

// ---- all of it
function update() {
  shownRows = rows.filter(passes);
  showTable();
  for (const draw of drawn) draw();
}
showSummary();
showFilters();
for (const spec of plots) {
  if (spec.id === "drift" && baselineRows.length === 0) continue;
  if (spec.id === "history" && pastRuns.length === 0) continue;
  makePlot(spec);
}
byId("all-columns").addEventListener("change", update);  // what is visible is what is searched
byId("rows-csv").addEventListener("click", () => save("rows.csv", "text/csv",
  csv(columnNames, shownRows.map((row) => columnNames.map((name) => row[name])))));
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark"
                                  : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  for (const draw of drawn) draw();
});
update();
