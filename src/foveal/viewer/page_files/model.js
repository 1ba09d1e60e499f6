"use strict";
// The data of a page, made ready: the lines of each call, its bands, and the life of each message.

const KINDS = ["tools", "system", "summary", "covered", "fence", "user", "assistant", "thinking", "tool call", "tool result", "reminder"];
const LEVELS = ["full", "recalled", "trimmed", "outline", "reference", "summary", "covered", "cleared", "hidden"]; // from sharp to dull
const COVERED = -2, ABSENT = -1; // states of a message without a line of its own

async function decoded(id) {
  const packed = document.getElementById(id).textContent.trim();
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function prepared(doc) {
  doc.runs.forEach((run, i) => { run.key = i; prepareRun(doc, run); });
  return doc;
}

function prepareRun(doc, run) {
  const count = doc.entries.length, own = new Int32Array(count).fill(ABSENT), cover = new Int32Array(count).fill(ABSENT);
  const state = new Int32Array(count).fill(ABSENT), since = new Int32Array(count);
  const entered = new Int32Array(run.lines.length).fill(-1);
  const bands = { kind: new Map(), level: new Map() };
  run.lives = Array.from({ length: count }, () => []);
  run.uses = new Int32Array(run.lines.length); // by how many calls each line was shown
  for (const line of run.lines) { line.kind ??= "entry"; line.entries ??= 1; }
  let current = [];
  run.calls.forEach((call, at) => {
    const touched = new Set(), gone = current.slice(call.kept ?? 0), come = call.lines ?? [];
    for (const number of gone) {
      const line = run.lines[number];
      run.uses[number] += at - entered[number];
      addBands(doc, bands, line, -1);
      each(line, (place) => { (line.kind === "range" ? cover : own)[place] = ABSENT; touched.add(place); });
    }
    for (const number of come) {
      const line = run.lines[number];
      entered[number] = at;
      addBands(doc, bands, line, 1);
      each(line, (place) => { (line.kind === "range" ? cover : own)[place] = number; touched.add(place); });
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
  run.limit = Math.max(1, ...run.calls.map((call) => call.limit));
}

function each(line, act) {
  if (line.first < 0) return;
  for (let place = line.first; place <= line.last; place++) act(place);
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
