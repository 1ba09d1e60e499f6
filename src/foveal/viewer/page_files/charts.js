// Three pictures on one axis of calls. Each is painted once and kept; choosing a call only moves the marker.

const LEFT = 46, RIGHT = 10;
const painted = new Map();
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement), get = (name) => style.getPropertyValue(name).trim();
  const of = (prefix, words) => Object.fromEntries([...words, "other"].map((word) => [word, get(`--${prefix}-${word.replace(" ", "-")}`)]));
  colours = { ink: get("--ink"), dim: get("--dim"), line: get("--line"), bad: get("--bad"), fold: get("--fold"), cache: get("--cache"), sans: get("--sans"), kind: of("k", KINDS), level: of("l", [...LEVELS, "tools"]) };
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
  const [context, width] = drawn(canvas, height, `sizes ${run.key} ${by}`, (g, w, tall) => paintSizes(g, w, tall, run, by));
  for (const [at, colour] of marks) mark(context, width, [10, height - 16], n, at, colour);
}

function paintSizes(g, width, height, run, by) {
  const n = run.calls.length, top = 16, bottom = height - 18, most = Math.max(1, ...run.calls.map((call) => call.tokens));
  const max = Math.max(Math.min(run.limit, most * 2.5), most) * 1.03, wide = (width - LEFT - RIGHT) / n;
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
  const order = by === "kind" ? KINDS : ["tools", ...LEVELS.slice().reverse()];
  run.calls.forEach((call, i) => {
    const x = xOf(i, n, width), bar = Math.max(.6, wide - (wide > 4 ? .8 : 0));
    let sum = 0;
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
  run.calls.forEach((call, i) => { const at = [xOf(i + .5, n, width), y(call.whole.tokens)]; if (i) g.lineTo(...at); else g.moveTo(...at); });
  g.stroke();
  g.setLineDash([]);
  g.globalAlpha = .9;
  g.strokeStyle = colours.bad;
  if (run.limit <= max) { g.beginPath(); g.moveTo(LEFT, y(run.limit)); g.lineTo(width - RIGHT, y(run.limit)); g.stroke(); }
  g.globalAlpha = 1;
  g.fillStyle = colours.fold;
  run.calls.forEach((call, i) => {
    if (!call.folds) return;
    const x = xOf(i + .5, n, width);
    g.beginPath(); g.moveTo(x, bottom + 2); g.lineTo(x - 3.5, bottom + 8); g.lineTo(x + 3.5, bottom + 8); g.fill();
  });
  paintCallNumbers(g, width, height, run);
}

function paintCallNumbers(g, width, height, run) {
  const n = run.calls.length, step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000].find((one) => n / one <= width / 70) || 5000;
  g.fillStyle = colours.dim;
  g.textAlign = "center";
  run.calls.forEach((call, i) => { if (call.call % step === 0) g.fillText(call.call, xOf(i + .5, n, width), height - 5); });
}

function drawAnew(canvas, run, marks, height) {
  const n = run.calls.length;
  const [context, width] = drawn(canvas, height, `anew ${run.key}`, (g, w, tall) => paintAnew(g, w, tall, run));
  for (const [at, colour] of marks) mark(context, width, [1, height - 1], n, at, colour);
}

function paintAnew(g, width, height, run) {
  const n = run.calls.length, max = Math.max(1, ...run.calls.map((call) => call.anew)), wide = (width - LEFT - RIGHT) / n, y = (tokens) => height - 2 - (height - 16) * tokens / max;
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
  const [context, width] = drawn(canvas, height, `map ${run.key}`, (g, w, tall) => paintMap(g, w, tall, doc, run));
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
  g.fillText("first", LEFT - 6, 12);
  g.fillText("newest", LEFT - 6, height - 4);
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
