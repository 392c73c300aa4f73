// One plot as SVG: axes, series of points with whiskers and lines, a legend inside the picture (so
// that a saved picture is complete). Texts go in as text nodes, never as markup.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
// Characters are taken as this wide when room is reckoned; the font is 12 px.
const CHARACTER_WIDTH = 6.6;
const LINE_HEIGHT = 16;

function svgElement(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

// 4 significant digits, no exponent where people read none.
function significant(value, digits = 4) {
  if (value === null || !Number.isFinite(value)) return "";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e7) return value.toExponential(Math.max(0, digits - 1));
  return String(Number(value.toPrecision(digits)));
}
function binaryKilo(value) {
  return value >= 1024 && value % 1024 === 0 ? value / 1024 + "K" : significant(value);
}

function linearTicks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high * (1 + 1e-12); i++) ticks.push(i * step);
  return ticks;
}
function logTicks(low, high, wanted) {
  for (const mantissas of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7]]) {
    const ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++) {
      for (const m of mantissas) {
        const tick = m * 10 ** e;
        if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push(tick);
      }
    }
    if (ticks.length >= 3) {
      const stride = Math.ceil(ticks.length / Math.max(2, wanted));
      return ticks.filter((tick, i) => i % stride === 0);
    }
  }
  return [low, high];
}

// kind: "linear" (from zero), "log", "powers" (ticks at the values themselves, log), "names".
// across: along the x axis, where a tick's text takes its width and not its height.
function makeScale(kind, values, from, to, wanted, across) {
  if (kind === "names") {
    const step = (to - from) / Math.max(1, values.length);
    return {
      place: (name) => from + (values.indexOf(name) + 0.5) * step,
      ticks: values.map((name) => ({ value: name, text: name })), step };
  }
  let low = Math.min(...values), high = Math.max(...values);
  if (kind === "linear") {
    low = Math.min(0, low);
    high = high > low ? high + 0.06 * (high - low) : low + 1;
    const ticks = linearTicks(low, high, wanted);
    return { place: (v) => from + ((v - low) / (high - low)) * (to - from),
             ticks: ticks.map((v) => ({ value: v, text: significant(v) })) };
  }
  const room = high > low ? (high / low) ** 0.05 : 1.5;
  low /= room;
  high *= room;
  const place = (v) => from + (Math.log(v / low) / Math.log(high / low)) * (to - from);
  let ticks = kind === "powers" ? [...new Set(values)].sort((a, b) => a - b) : [];
  if (kind === "log") ticks = logTicks(low, high, wanted);
  // Ticks that would print over one another are left out.
  const texts = [];
  for (const value of ticks) {
    const text = kind === "powers" ? binaryKilo(value) : significant(value, 3);
    const last = texts[texts.length - 1];
    const gap = across ? text.length * CHARACTER_WIDTH + 8 : 14;
    if (!last || Math.abs(place(value) - place(last.value)) >= gap) texts.push({ value, text });
  }
  return { place, ticks: texts };
}

function drawMark(parent, shape, x, y, cssClass, title) {
  const r = 4.2;
  let mark;
  if (shape === 0) {
    mark = svgElement(parent, "circle", { cx: x, cy: y, r, class: cssClass });
  } else {
    const corners = [
      null,
      [[-r, -r], [r, -r], [r, r], [-r, r]],                  // square
      [[0, -r * 1.2], [r * 1.1, r * 0.8], [-r * 1.1, r * 0.8]],  // triangle
      [[0, -r * 1.3], [r * 1.3, 0], [0, r * 1.3], [-r * 1.3, 0]],  // diamond
    ][shape];
    mark = svgElement(parent, "polygon", {
      points: corners.map(([dx, dy]) => `${(x + dx).toFixed(1)},${(y + dy).toFixed(1)}`).join(" "),
      class: cssClass });
  }
  svgElement(mark, "title", {}, title);
}

// Colour and shape of a series: 8 colours, then the same hollow, with 4 shapes in turn, then all of it
// a shape further on: no two of 64 are alike.
function seriesClass(index) {
  return `s${index % 8}` + (Math.floor(index / 8) % 2 === 1 ? " hollow" : "");
}
function seriesShape(index) {
  return (index + Math.floor(index / 16)) % 4;
}

// spec: title, x and y {label, kind}, points [{x, y, low, high, series, title}], connect, and
// ceilings [{y(x), text}]. width: of the place it goes to. seriesNames: all of the page, so that an
// implementation keeps its colour from plot to plot.
function drawPlot(spec, width, seriesNames) {
  const present = seriesNames.filter((name) => spec.points.some((p) => p.series === name));
  const root = document.createElementNS(SVG, "svg");
  root.setAttribute("class", "plot");
  root.setAttribute("role", "img");
  root.setAttribute("aria-label", spec.title);

  // ---- room for texts: names below slanted, legend in as many lines as it needs
  const names = spec.x.kind === "names";
  const xValues = names ? spec.x.names : spec.x.values;
  const longest = names ? Math.max(...xValues.map((n) => n.length)) : 0;
  const left = 64, right = 16, top = 12;
  const bottom = names ? Math.min(170, 30 + longest * CHARACTER_WIDTH * 0.72) : 48;
  const legend = [];
  let line = 0, used = 0;
  for (const name of present) {
    const needs = 26 + name.length * CHARACTER_WIDTH;
    if (used > 0 && used + needs > width - 20) { line++; used = 0; }
    legend.push({ name, x: 10 + used, line });
    used += needs;
  }
  const legendHeight = (line + 1) * 20 + 6;
  const plotHeight = Math.max(200, Math.min(360, width * 0.45));
  const height = top + plotHeight + bottom + legendHeight;
  root.setAttribute("viewBox", `0 0 ${width} ${height}`);
  root.setAttribute("width", width);
  root.setAttribute("height", height);

  // ---- scales
  const y0 = top + plotHeight, x1 = width - right;
  const yValues = spec.points.flatMap((p) => [p.y, p.low, p.high])
                      .concat(spec.yAlso || []).filter((v) => Number.isFinite(v));
  const xs = makeScale(spec.x.kind, xValues, left, x1, (x1 - left) / 80, true);
  const ys = makeScale(spec.y.kind, yValues, y0, top, plotHeight / 45, false);

  // ---- axes
  for (const tick of ys.ticks) {
    const y = ys.place(tick.value);
    svgElement(root, "line", { x1: left, x2: x1, y1: y, y2: y, class: "grid" });
    svgElement(root, "text", { x: left - 6, y: y + 4, "text-anchor": "end" }, tick.text);
  }
  for (const tick of xs.ticks) {
    const x = xs.place(tick.value);
    svgElement(root, "line", { x1: x, x2: x, y1: y0, y2: y0 + 5, class: "frame" });
    if (names) {
      svgElement(root, "text", { x, y: y0 + 16, "text-anchor": "end",
                                 transform: `rotate(-40 ${x} ${y0 + 16})` }, tick.text);
    } else {
      svgElement(root, "text", { x, y: y0 + 18, "text-anchor": "middle" }, tick.text);
    }
  }
  svgElement(root, "rect", { x: left, y: top, width: x1 - left, height: plotHeight, class: "frame" });
  if (!names) {
    svgElement(root, "text", { x: (left + x1) / 2, y: y0 + 38, "text-anchor": "middle",
                               class: "muted" }, spec.x.label);
  }
  svgElement(root, "text", { x: 14, y: (top + y0) / 2, "text-anchor": "middle", class: "muted",
                             transform: `rotate(-90 14 ${(top + y0) / 2})` }, spec.y.label);

  // ---- ceilings
  const labels = [];
  for (const ceiling of spec.ceilings || []) {
    const path = ceiling.points.map(([x, y], i) =>
      `${i ? "L" : "M"}${xs.place(x).toFixed(1)} ${ys.place(y).toFixed(1)}`).join("");
    svgElement(root, "path", { d: path, class: "ceiling" });
    // Inside the frame, and below any label that stands there already: on a narrow screen two
    // ceilings end close to each other.
    const [x, y] = ceiling.points[ceiling.points.length - 1];
    const wide = ceiling.text.length * CHARACTER_WIDTH;
    const end = Math.max(xs.place(x) - 6, left + 6 + wide);
    let base = ys.place(y) - 6;
    const meets = (box) => end - wide < box.end && box.end - box.wide < end &&
                           Math.abs(base - box.base) < LINE_HEIGHT;
    for (let below = labels.find(meets); below; below = labels.find(meets)) {
      base = below.base + LINE_HEIGHT;
    }
    labels.push({ end, wide, base });
    svgElement(root, "text", { x: end, y: base, "text-anchor": "end", class: "muted" }, ceiling.text);
  }

  // ---- series
  for (const name of present) {
    const index = seriesNames.indexOf(name);
    const css = seriesClass(index);
    const points = spec.points.filter((p) => p.series === name);
    // Points of one name stand side by side, a series a lane.
    const lane = names ? (present.indexOf(name) - (present.length - 1) / 2) *
                             Math.min(9, (xs.step * 0.7) / present.length) : 0;
    const at = (p) => [xs.place(p.x) + lane, ys.place(p.y)];
    if (spec.connect && points.length > 1) {
      points.sort((a, b) => at(a)[0] - at(b)[0]);
      svgElement(root, "path", { class: `line ${css}`, d: points.map((p, i) =>
        `${i ? "L" : "M"}${at(p).map((v) => v.toFixed(1)).join(" ")}`).join("") });
    }
    for (const p of points) {
      const [x, y] = at(p);
      if (Number.isFinite(p.low) && Number.isFinite(p.high) && p.low > 0) {
        svgElement(root, "line", { class: `whisker ${css}`, x1: x, x2: x, y1: ys.place(p.low),
                                   y2: ys.place(p.high) });
      }
      drawMark(root, seriesShape(index), x, y, `mark ${css}`, p.title);
    }
  }

  // ---- legend
  for (const entry of legend) {
    const index = seriesNames.indexOf(entry.name);
    const y = top + plotHeight + bottom + 14 + entry.line * 20;
    drawMark(root, seriesShape(index), entry.x + 6, y - 4, `legend mark ${seriesClass(index)}`, entry.name);
    svgElement(root, "text", { x: entry.x + 16, y }, entry.name);
  }
  return root;
}

// The picture alone: what the page's style sheet says of it, with the colours of this moment.
function standaloneSvg(svg) {
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", SVG);
  const shown = getComputedStyle(document.documentElement);
  let style = "";
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (rule.selectorText && rule.selectorText.startsWith(".plot")) style += rule.cssText + "\n";
    }
  }
  style = style.replace(/var\((--[\w-]+)\)/g, (all, name) => shown.getPropertyValue(name).trim());
  const element = document.createElementNS(SVG, "style");
  element.textContent = style;
  copy.insertBefore(element, copy.firstChild);
  const ground = document.createElementNS(SVG, "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", shown.getPropertyValue("--background").trim());
  copy.insertBefore(ground, element.nextSibling);
  return new XMLSerializer().serializeToString(copy);
}
