// Three pictures on one axis of calls. Each is painted once and kept; choosing a call only moves the marker.

const LEFT = 46, RIGHT = 10;
const painted = new Map();
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement), get = (name) => style.getPropertyValue(name).trim();
  const of = (prefix, words) => Object.fromEntries([...words, "other"].map((word) => [word, get(`--${prefix}-${word.replace(" ", "-")}`)]));
  colours = { ink: get("--ink"), dim: get("--dim"), line: get("--line"), bad: get("--bad"), fold: get("--fold"), cache: get("--cache"), recorded: get("--recorded"), own: get("--good"), other: get("--dim"), best: get("--recorded"), sans: get("--sans"), kind: of("k", KINDS), level: of("l", [...LEVELS, "tools"]) };
  painted.clear();
}

const colourOf = (by, word) => colours[by][word] ?? colours[by].other;
const xOf = (i, n, width) => LEFT + (width - LEFT - RIGHT) * i / n;

function callAt(canvas, event, n) {
  const box = canvas.getBoundingClientRect(), i = Math.floor((event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT) * n);
  return i >= 0 && i < n ? i : -1;
}

function drawn(canvas, height, key, paint) {
  const width = canvas.parentElement.clientWidth, ratio = devicePixelRatio || 1, full = `${key} ${width} ${height} ${ratio}`;
  let kept = painted.get(canvas);
  if (!kept || kept.key !== full) {
    const picture = document.createElement("canvas");
    picture.width = Math.max(1, width * ratio);
    picture.height = height * ratio;
    const context = picture.getContext("2d");
    context.scale(ratio, ratio);
    paint(context, width, height);
    painted.set(canvas, kept = { key: full, picture });
    canvas.width = picture.width;
    canvas.height = picture.height;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.drawImage(kept.picture, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [context, width];
}

function mark(context, width, [top, bottom], n, at, colour) {
  if (at === null) return;
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.strokeRect(xOf(at, n, width) - .75, top, Math.max(3, (width - LEFT - RIGHT) / n) + 1.5, bottom - top);
}

function drawSizes(canvas, run, by, marks, height) {
  const n = run.calls.length;
  const [context, width] = drawn(canvas, height, `sizes ${run.key} ${n} ${by}`, (g, w, tall) => paintSizes(g, w, tall, run, by));
  for (const [at, colour] of marks) mark(context, width, [10, height - 16], n, at, colour);
}

// The tokens at the top of the chart: room for the limit and for every prompt. The whole history may leave it.
function chartTop(run) {
  const most = run.calls.reduce((all, call) => Math.max(all, call.tokens), 1);
  return (doc.hidden + Math.max(Math.min(run.limit, most * 2.5), most)) * 1.03;
}

function paintSizes(g, width, height, run, by) {
  const n = run.calls.length, top = 16, bottom = height - 18, hidden = doc.hidden || 0;
  const max = chartTop(run), wide = (width - LEFT - RIGHT) / n;
  const y = (tokens) => bottom - (bottom - top) * Math.min(tokens, max) / max;
  g.font = `10.5px ${colours.sans}`;
  g.textBaseline = "middle";
  for (const share of [0, .25, .5, .75, 1]) {
    const value = max / 1.03 * share;
    g.fillStyle = colours.line;
    g.fillRect(LEFT, y(value), width - LEFT - RIGHT, 1);
    g.fillStyle = colours.dim;
    g.textAlign = "right";
    g.fillText(short(value), LEFT - 6, y(value));
  }
  if (hidden) { g.fillStyle = hatched(g, colours.dim); g.fillRect(LEFT, y(hidden), width - LEFT - RIGHT, y(0) - y(hidden)); }
  const order = by === "kind" ? KINDS : ["tools", ...LEVELS.slice().reverse()];
  run.calls.forEach((call, i) => {
    const x = xOf(i, n, width), bar = Math.max(.6, wide - (wide > 4 ? .8 : 0));
    let sum = hidden;
    for (const word of [...order, ...[...call.bands[by].keys()].filter((one) => !order.includes(one))]) {
      const tokens = call.bands[by].get(word);
      if (!tokens) continue;
      g.fillStyle = colourOf(by, word);
      g.fillRect(x, y(sum + tokens), bar, Math.max(.3, y(sum) - y(sum + tokens)));
      sum += tokens;
    }
    if (!call.sent) { g.strokeStyle = colours.bad; g.lineWidth = 1.5; g.strokeRect(x + .75, top, Math.max(1, bar - 1.5), bottom - top); }
  });
  g.setLineDash([3, 3]);
  g.lineWidth = 1;
  g.strokeStyle = colours.ink;
  g.globalAlpha = .6;
  g.beginPath();
  let isOutside = true;
  run.calls.forEach((call, i) => {
    const at = [xOf(i + .5, n, width), y(hidden + call.whole.tokens)], wasOutside = isOutside;
    isOutside = hidden + call.whole.tokens > max;
    if (wasOutside) g.moveTo(...at); else g.lineTo(...at); // the line ends at the top, where it leaves the chart
  });
  g.stroke();
  g.setLineDash([]);
  paintRecorded(g, width, run, y, max);
  g.globalAlpha = .9;
  g.strokeStyle = colours.bad;
  if (hidden + run.limit <= max) { g.beginPath(); g.moveTo(LEFT, y(hidden + run.limit)); g.lineTo(width - RIGHT, y(hidden + run.limit)); g.stroke(); }
  g.globalAlpha = 1;
  g.fillStyle = colours.fold;
  run.calls.forEach((call, i) => {
    if (call.is_compacted) { const x = xOf(i, n, width); g.save(); g.fillStyle = colours.recorded; g.fillRect(x - .5, top, 1, bottom - top); g.beginPath(); g.moveTo(x, top - 6); g.lineTo(x + 4, top - 1); g.lineTo(x, top + 4); g.lineTo(x - 4, top - 1); g.fill(); g.restore(); }
    if (!call.folds) return;
    const x = xOf(i + .5, n, width);
    g.beginPath(); g.moveTo(x, bottom + 2); g.lineTo(x - 3.5, bottom + 8); g.lineTo(x + 3.5, bottom + 8); g.fill();
  });
  paintCallNumbers(g, width, height, run);
}

// The sizes that the provider counted when the session happened: what the client sent then, on the scale of our own counts.
function paintRecorded(g, width, run, y, max) {
  const n = run.calls.length;
  g.globalAlpha = .95;
  g.strokeStyle = colours.recorded;
  g.lineWidth = 1.25;
  g.beginPath();
  let isOpen = false;
  run.calls.forEach((call, i) => {
    const tokens = call.recorded ? doc.hidden + (call.recorded.tokens - doc.hidden) / doc.ratio : 0, isShown = call.recorded && tokens <= max;
    if (!isShown || call.is_compacted) isOpen = false;
    if (!isShown) return;
    const at = [xOf(i + .5, n, width), y(tokens)];
    if (isOpen) g.lineTo(...at); else g.moveTo(...at);
    isOpen = true;
  });
  g.stroke();
  g.lineWidth = 1;
}

function hatched(g, colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.globalAlpha = .5;
  pen.beginPath(); pen.moveTo(0, 6); pen.lineTo(6, 0); pen.stroke();
  return g.createPattern(tile, "repeat");
}

function paintCallNumbers(g, width, height, run) {
  const n = run.calls.length, step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000].find((one) => n / one <= width / 70) || 5000;
  g.fillStyle = colours.dim;
  g.textAlign = "center";
  run.calls.forEach((call, i) => { if (call.call % step === 0) g.fillText(call.call, xOf(i + .5, n, width), height - 5); });
}

function drawAnew(canvas, run, marks, height) {
  const n = run.calls.length;
  const [context, width] = drawn(canvas, height, `anew ${run.key} ${n}`, (g, w, tall) => paintAnew(g, w, tall, run));
  for (const [at, colour] of marks) mark(context, width, [1, height - 1], n, at, colour);
}

function paintAnew(g, width, height, run) {
  const n = run.calls.length, max = run.calls.reduce((most, call) => Math.max(most, call.anew), 1), wide = (width - LEFT - RIGHT) / n, y = (tokens) => height - 2 - (height - 16) * tokens / max;
  g.font = `10.5px ${colours.sans}`;
  g.fillStyle = colours.dim;
  g.textAlign = "right";
  g.textBaseline = "middle";
  g.fillText(short(max), LEFT - 6, 15);
  g.fillText("0", LEFT - 6, height - 6);
  run.calls.forEach((call, i) => {
    g.fillStyle = call.moved || call.is_cold ? colours.bad : colours.cache;
    g.fillRect(xOf(i, n, width), y(call.anew), Math.max(.8, wide - (wide > 4 ? .8 : 0)), Math.max(.5, height - 2 - y(call.anew)));
  });
}

function drawMap(canvas, doc, run, state, height) {
  const n = run.calls.length, rows = doc.entries.length;
  const [context, width] = drawn(canvas, height, `map ${run.key} ${n} ${rows}`, (g, w, tall) => paintMap(g, w, tall, doc, run));
  for (const [at, colour] of state.marks) mark(context, width, [1, height - 1], n, at, colour);
  if (state.entry === null) return;
  const y = 2 + (height - 4) * state.entry / rows, tall = Math.max(1.5, (height - 4) / rows);
  context.strokeStyle = colours.ink;
  context.lineWidth = 1;
  context.strokeRect(LEFT - 2, y - 1, width - LEFT - RIGHT + 4, tall + 2);
}

function paintMap(g, width, height, doc, run) {
  const n = run.calls.length, rows = doc.entries.length, tall = (height - 4) / rows, wide = (width - LEFT - RIGHT) / n;
  g.font = `10.5px ${colours.sans}`;
  g.fillStyle = colours.dim;
  g.textAlign = "right";
  g.fillText(say("first"), LEFT - 6, 12);
  g.fillText(say("newest"), LEFT - 6, height - 4);
  for (const isOwn of [false, true]) {
    run.lives.forEach((lives, place) => {
      for (const life of lives) {
        if (life.line >= 0 !== isOwn) continue;
        g.fillStyle = colourOf("level", isOwn ? doc.words[run.lines[life.line].level] : "covered");
        g.fillRect(xOf(life.from, n, width), 2 + place * tall, Math.max(.6, (life.to - life.from + 1) * wide), Math.max(isOwn ? .7 : .3, tall > 5 ? tall - .6 : tall + .05));
      }
    });
  }
}

function entryAt(canvas, event, doc) {
  const box = canvas.getBoundingClientRect();
  return Math.max(0, Math.min(doc.entries.length - 1, Math.floor((event.clientY - box.top - 2) / (box.height - 4) * doc.entries.length)));
}

// Points on two axes, with names where there is room for them.
function drawScatter(canvas, chart, key) {
  drawn(canvas, 320, key, (g, width, height) => paintScatter(g, width, height, chart));
}

function ticks(low, high) {
  const span = Math.max(high - low, 1e-9) / 6, unit = 10 ** Math.floor(Math.log10(span)), step = [1, 2, 5, 10].map((one) => one * unit).find((one) => one >= span);
  const first = Math.floor(low / step + 1e-9), last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

function paintScatter(g, width, height, chart) {
  const xs = chart.marks.map((mark) => mark.x), ys = chart.marks.map((mark) => mark.y), edge = chart.most_x ?? Math.max(...xs);
  const across = ticks(Math.min(0, ...xs), Math.min(edge, Math.max(...xs))), up = ticks(Math.min(...ys), Math.max(...ys));
  const place = (value, all, from, to) => from + (to - from) * (Math.min(Math.max(value, all[0]), all[all.length - 1]) - all[0]) / (all[all.length - 1] - all[0]);
  const x = (value) => place(value, across, LEFT, width - 30), y = (value) => place(value, up, height - 22, 12), taken = chart.marks.map((mark) => [x(mark.x) - 5, y(mark.y) - 5, x(mark.x) + 5, y(mark.y) + 5]);
  g.font = `10.5px ${colours.sans}`;
  g.textBaseline = "middle";
  for (const value of up) { g.fillStyle = colours.line; g.fillRect(LEFT, y(value), width - LEFT - 30, 1); g.fillStyle = colours.dim; g.textAlign = "right"; g.fillText(value.toFixed(2), LEFT - 6, y(value)); }
  g.textAlign = "center";
  for (const value of across) g.fillText(value.toFixed(2), x(value), height - 8);
  for (const line of chart.lines) {
    g.strokeStyle = colours[chart.marks[line[0]].kind];
    g.globalAlpha = chart.marks[line[0]].kind === "other" ? .5 : 1;
    g.beginPath(); line.forEach((number, i) => { const mark = chart.marks[number]; g[i ? "lineTo" : "moveTo"](x(mark.x), y(mark.y)); }); g.stroke();
  }
  for (const mark of chart.marks) {
    g.globalAlpha = .6;
    g.strokeStyle = g.fillStyle = colours[mark.kind];
    g.beginPath();
    if (mark.x_whisker) { g.moveTo(x(mark.x_whisker[0]), y(mark.y)); g.lineTo(x(mark.x_whisker[1]), y(mark.y)); }
    if (mark.y_whisker) { g.moveTo(x(mark.x), y(mark.y_whisker[0])); g.lineTo(x(mark.x), y(mark.y_whisker[1])); }
    g.stroke();
    g.globalAlpha = 1;
    g.beginPath(); g.arc(x(mark.x), y(mark.y), 4, 0, 7);
    if (mark.is_hollow) g.stroke(); else g.fill();
    if (mark.is_ringed) { g.strokeStyle = colours.fold; g.lineWidth = 2; g.beginPath(); g.arc(x(mark.x), y(mark.y), 8, 0, 7); g.stroke(); g.lineWidth = 1; }
  }
  g.fillStyle = colours.ink;
  for (const mark of chart.marks) if (mark.label) nameMark(g, mark.label, x(mark.x), y(mark.y), taken, [LEFT, 4, width, height - 24]);
}

// A name goes where it covers no mark and no other name: beside its mark, else farther off with a line to it.
function nameMark(g, text, x, y, taken, [left, top, right, bottom]) {
  const half = g.measureText(text).width / 2 + 2, isFree = ([a, b, c, d]) => a >= left && c <= right && b >= top && d <= bottom && !taken.some(([e, f, i, j]) => e < c && a < i && f < d && b < j);
  for (const reach of [10, 15, 21, 28, 36, 46, 58, 72]) {
    for (let way = 0; way < 16; way++) {
      const mx = x + (reach + half - 6) * Math.cos(way * Math.PI / 8), my = y + reach * Math.sin(way * Math.PI / 8), box = [mx - half, my - 6, mx + half, my + 6];
      if (!isFree(box)) continue;
      taken.push(box);
      if (reach > 15) { g.save(); g.strokeStyle = colours.dim; g.lineWidth = .5; g.beginPath(); g.moveTo(x, y); g.lineTo(mx, my); g.stroke(); g.restore(); }
      g.textAlign = "center";
      g.fillText(text, mx, my);
      return;
    }
  }
}
