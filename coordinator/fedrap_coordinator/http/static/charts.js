// Small charts in SVG: bars, a line, a gauge. Each has a title that says what it shows.

const NS = "http://www.w3.org/2000/svg";

function draw(name, attributes = {}, text = null) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  return node;
}

function canvas(width, height, title) {
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
  svg.append(draw("title", {}, title));
  return svg;
}

// A round number at or above `top`, so that an axis has few and readable lines.
export function ceiling(top) {
  if (top <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(top));
  return [1, 2, 2.5, 5, 10].map((m) => m * power).find((value) => value >= top);
}

function axis(svg, frame, top, show) {
  for (const share of [0, 0.5, 1]) {
    const y = frame.y + frame.height * (1 - share);
    svg.append(draw("line", { class: "grid-line", x1: frame.x, x2: frame.x + frame.width, y1: y, y2: y }));
    svg.append(draw("text", { x: frame.x - 8, y: y + 4, "text-anchor": "end" }, show(share * top)));
  }
}

// bars: [{label, value, kind, title}], oldest first.
export function barChart({ bars, title, show, width = 640, height = 170 }) {
  const svg = canvas(width, height, title);
  const frame = { x: 46, y: 8, width: width - 50, height: height - 32 };
  const top = ceiling(Math.max(1, ...bars.map((bar) => bar.value)));
  axis(svg, frame, top, show);
  const slot = frame.width / Math.max(bars.length, 12);
  const thick = Math.min(26, slot * 0.72);
  const every = Math.ceil(bars.length / 10);
  bars.forEach((bar, index) => {
    const tall = Math.max(bar.value > 0 ? 2 : 0, (frame.height * bar.value) / top);
    const x = frame.x + slot * index + (slot - thick) / 2;
    const mark = draw("rect", {
      class: `mark ${bar.kind ?? ""}`, x, y: frame.y + frame.height - tall, width: thick, height: tall,
      rx: Math.min(3, tall / 2),
    });
    mark.append(draw("title", {}, bar.title));
    svg.append(mark);
    if (index % every === 0 || bars.length < 12) {
      svg.append(draw("text", { x: x + thick / 2, y: height - 8, "text-anchor": "middle" }, bar.label));
    }
  });
  return svg;
}

// Times that read well between two moments, a few of them, each with its words.
export function timeTicks(first, last, most = 5) {
  const steps = [60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 30 * 86400, 90 * 86400];
  const step = steps.find((one) => (last - first) / one <= most) ?? 365 * 86400;
  const zone = -60 * new Date(1000 * first).getTimezoneOffset();
  const ticks = [];
  for (let at = Math.ceil((first + zone) / step) * step - zone; at <= last; at += step) {
    const day = { day: "numeric", month: "short" }, hour = { hour: "2-digit", minute: "2-digit" };
    ticks.push({ at, word: new Date(1000 * at).toLocaleString("en-GB", step < 86400 ? hour : day) });
  }
  if (ticks.length) return ticks;
  const seconds = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  return [{ at: first, word: new Date(1000 * first).toLocaleTimeString("en-GB", seconds) }];
}

// bars: [{at, until, value, kind, title}], by time: as wide as what they show lasted.
export function timeChart({ bars, title, show, width = 640, height = 170 }) {
  const svg = canvas(width, height, title);
  const frame = { x: 46, y: 8, width: width - 50, height: height - 32 };
  const top = ceiling(Math.max(1, ...bars.map((bar) => bar.value)));
  axis(svg, frame, top, show);
  const first = Math.min(...bars.map((bar) => bar.at));
  const last = Math.max(first + 1, ...bars.map((bar) => bar.until));
  const place = (at) => frame.x + (frame.width * (at - first)) / (last - first);
  for (const tick of timeTicks(first, last)) {
    const x = place(tick.at);
    svg.append(draw("line", { class: "grid-line", x1: x, x2: x, y1: frame.y + frame.height, y2: frame.y + frame.height + 4 }));
    svg.append(draw("text", { x, y: height - 8, "text-anchor": x > width - 30 ? "end" : x < frame.x + 20 ? "start" : "middle" }, tick.word));
  }
  for (const bar of bars) {
    const tall = Math.max(bar.value > 0 ? 2 : 0, (frame.height * bar.value) / top);
    const from = place(bar.at), wide = Math.max(1.5, place(bar.until) - from - 1);
    const mark = draw("rect", {
      class: `mark ${bar.kind ?? ""}`, x: Math.min(from, frame.x + frame.width - wide), y: frame.y + frame.height - tall,
      width: wide, height: tall, rx: Math.min(3, tall / 2, wide / 2),
    });
    mark.append(draw("title", {}, bar.title));
    svg.append(mark);
  }
  return svg;
}

// points: [{at, value, title}], in order of at; the line starts at zero unless `floor` says else.
export function lineChart({ points, title, show, top = null, kind = "", width = 300, height = 130 }) {
  const svg = canvas(width, height, title);
  const frame = { x: 50, y: 8, width: width - 60, height: height - 32 };
  const high = top ?? ceiling(Math.max(...points.map((point) => point.high ?? point.value), 1e-9));
  axis(svg, frame, high, show);
  const first = points[0].at;
  const far = Math.max(1, points.at(-1).at - first);
  const corner = ({ at, value }) => [
    frame.x + (frame.width * (at - first)) / far,
    frame.y + frame.height * (1 - Math.min(1, value / high)),
  ];
  const corners = points.map(corner);
  const path = corners.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" L");
  const floor = frame.y + frame.height;
  if (points.length > 1) {
    svg.append(draw("path", { class: "under", d: `M${corners[0][0]},${floor} L${path} L${corners.at(-1)[0]},${floor} Z` }));
    svg.append(draw("path", { class: `trace ${kind}`, d: `M${path}` }));
  }
  points.forEach((point, index) => {  // how sure it is, where that is known
    if (point.low === undefined) return;
    const [x] = corners[index];
    const ends = [point.low, point.high].map((value) => corner({ at: point.at, value: Math.max(0, value) })[1]);
    svg.append(draw("path", { class: `trace ${kind}`, d: `M${x},${ends[0]} L${x},${ends[1]}` }));
  });
  corners.forEach(([x, y], index) => {
    const dot = draw("circle", { class: `dot ${kind}`, cx: x, cy: y, r: index === corners.length - 1 ? 4 : 2 });
    dot.append(draw("title", {}, points[index].title));
    svg.append(dot);
  });
  svg.append(draw("text", { x: frame.x, y: height - 8, "text-anchor": "start" }, `v${points[0].at}`));
  if (points.length > 1) {
    svg.append(draw("text", { x: frame.x + frame.width, y: height - 8, "text-anchor": "end" }, `v${points.at(-1).at}`));
  }
  return svg;
}

// Half a circle: how much of the whole is used.
export function gauge({ share, title, word, note, kind }) {
  const svg = canvas(240, 138, title);
  const radius = 96, length = Math.PI * radius;
  const arc = `M${120 - radius},120 A${radius},${radius} 0 0 1 ${120 + radius},120`;
  svg.append(draw("path", { class: "back", d: arc, "stroke-width": 16, "stroke-linecap": "round" }));
  if (share > 0) {
    svg.append(draw("path", {
      class: `arc ${kind}`, d: arc, "stroke-width": 16, "stroke-linecap": "round",
      "stroke-dasharray": `${Math.max(0.5, length * Math.min(1, share))} ${length}`,
    }));
  }
  svg.append(draw("text", { class: "hand", x: 120, y: 96, "text-anchor": "middle" }, word));
  svg.append(draw("text", { x: 120, y: 118, "text-anchor": "middle", class: "gauge-note" }, note));
  return svg;
}
