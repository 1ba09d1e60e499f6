// The data of a page, made ready: the lines of each call, its bands, and the life of each message.

const KINDS = ["tools", "system", "summary", "covered", "fence", "user", "assistant", "thinking", "tool call", "tool result", "reminder"];
const LEVELS = ["full", "recalled", "trimmed", "outline", "reference", "summary", "covered", "cleared", "hidden"]; // from sharp to dull
const COVERED = -2, ABSENT = -1; // states of a message without a line of its own

async function decoded(id) {
  const packed = document.getElementById(id).textContent.trim();
  const letters = atob(packed), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function prepared(doc) {
  doc.runs.forEach((run, i) => { run.key = `${i}`; prepareRun(doc, run); });
  return doc;
}

// What this page has of a growing session, as its server wants it named.
const possession = (doc, reading) => [reading, doc.entries.length, doc.runs[0].calls.filter((call) => call.is_answered).length, doc.runs[0].lines.length, doc.words.length, doc.texts.length, doc.recalls.length].join(".");

// Add the part that has come since. The call without a reply is told anew each time.
function grow(doc, more) {
  const run = doc.runs[0], answered = run.calls.filter((call) => call.is_answered).length;
  for (const name of ["entries", "recalls", "words", "texts"]) doc[name].push(...more[name]);
  run.calls.splice(answered, Infinity, ...more.calls);
  run.lines.push(...more.lines);
  Object.assign(run, { folds: more.run.folds, total: more.run.total, next_fold: more.run.next_fold, counted: more.run.counted });
  doc.children = more.children;
}

function prepareRun(doc, run) {
  const count = doc.entries.length, own = new Int32Array(count).fill(ABSENT), cover = new Int32Array(count).fill(ABSENT);
  const state = new Int32Array(count).fill(ABSENT), since = new Int32Array(count);
  const entered = new Int32Array(run.lines.length).fill(-1);
  const bands = { kind: new Map(), level: new Map() };
  run.lives = Array.from({ length: count }, () => []);
  run.uses = new Int32Array(run.lines.length); // by how many calls each line was shown
  for (const line of run.lines) { line.kind ??= "entry"; line.entries ??= 1; }
  const stamp = new Int32Array(count).fill(-1); // the call that a message was last touched by
  let current = [];
  run.calls.forEach((call, at) => {
    const touched = [], touch = (place) => { if (stamp[place] !== at) { stamp[place] = at; touched.push(place); } }, gone = current.slice(call.kept ?? 0), come = call.lines ?? [];
    for (const number of gone) {
      const line = run.lines[number];
      run.uses[number] += at - entered[number];
      addBands(doc, bands, line, -1);
      put(line, line.kind === "range" ? cover : own, ABSENT, touch);
    }
    for (const number of come) {
      const line = run.lines[number];
      entered[number] = at;
      addBands(doc, bands, line, 1);
      put(line, line.kind === "range" ? cover : own, number, touch);
    }
    for (const place of touched) {
      const now = own[place] >= 0 ? own[place] : cover[place] >= 0 ? COVERED : ABSENT;
      if (now === state[place]) continue;
      if (state[place] !== ABSENT) run.lives[place].push({ from: since[place], to: at - 1, line: state[place] });
      state[place] = now;
      since[place] = at;
    }
    current = current.slice(0, call.kept ?? 0).concat(come);
    call.bands = { kind: new Map(bands.kind), level: new Map(bands.level) };
    call.bands.kind.set("tools", call.tools + call.framing);
    call.bands.level.set("tools", call.tools + call.framing);
    call.anew = call.sent ? call.sent.tokens - call.sent.cached : 0;
  });
  current.forEach((number) => { run.uses[number] += run.calls.length - entered[number]; });
  state.forEach((now, place) => { if (now !== ABSENT) run.lives[place].push({ from: since[place], to: run.calls.length - 1, line: now }); });
  run.limit = run.calls.reduce((most, call) => Math.max(most, call.limit), 1);
}

function put(line, places, value, touch) {
  if (line.first < 0) return;
  for (let place = line.first; place <= line.last; place++) { places[place] = value; touch(place); }
}

function addBands(doc, bands, line, sign) {
  for (const [kind, level, tokens] of line.shares) {
    for (const [band, word] of [[bands.kind, doc.words[kind]], [bands.level, doc.words[level]]]) band.set(word, (band.get(word) || 0) + sign * tokens);
  }
}

// The numbers of all lines of a call's prompt, in the order in which they were sent.
function linesOf(run, at) {
  const pieces = [];
  let wanted = null;
  for (let i = at; i >= 0 && wanted !== 0; i--) {
    const kept = run.calls[i].kept ?? 0, lines = run.calls[i].lines ?? [];
    pieces.push(wanted === null ? lines : lines.slice(0, Math.max(0, wanted - kept)));
    wanted = wanted === null ? kept : Math.min(wanted, kept);
  }
  return pieces.reverse().flat();
}

// For each line of a prompt, whether it was read from the cache: "cache", "partly" or "anew".
function cacheStates(run, at, numbers) {
  const call = run.calls[at], cached = call.sent ? call.sent.cached : 0;
  let sum = call.tools;
  const states = numbers.map((number) => {
    const line = run.lines[number];
    if (line.first < 0) return null; // beside the conversation: as the line behind it
    const before = sum;
    sum += line.tokens;
    return sum <= cached ? "cache" : before < cached ? "partly" : "anew";
  });
  for (let i = states.length - 1; i >= 0; i--) states[i] ??= states[i + 1] ?? "anew";
  return states;
}

const partsOf = (doc, line) => line.parts ?? doc.entries[line.first].parts;
const textOf = (doc, line) => partsOf(doc, line).map((part) => doc.texts[part[2]]).join("\n");
const coverAt = (run, at, place) => linesOf(run, at).find((n) => run.lines[n].kind === "range" && run.lines[n].first <= place && place <= run.lines[n].last);
const lifeAt = (run, at, place) => run.lives[place].find((life) => life.from <= at && at <= life.to);
const rawOf = (run, place) => Math.max(0, ...run.lives[place].filter((life) => life.line >= 0).map((life) => run.lines[life.line].raw));
const sentOf = (run, place) => run.lives[place].reduce((sum, life) => sum + (life.line >= 0 ? run.lines[life.line].tokens * (life.to - life.from + 1) : 0), 0);
