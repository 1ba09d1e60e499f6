// State, keys and the address. `S` is all that a link to this page has to carry.

const TABS = { prompt: ["Prompt", promptPanel], changed: ["What changed", changedPanel], heaviest: ["Heaviest", heaviestPanel], cost: ["Cost", costPanel], calls: ["Calls", callsPanel], search: ["Search", searchPanel], compare: ["Compare", comparePanel] };
const KEYS = [["← →", "the call before, the next one (Page Up, Page Down: ten; Home, End)"], ["j k", "the next message of the prompt, the one before"], ["f F", "the next fold, the one before"], ["m M", "the next call whose prefix moved, the one before"], ["1 … 7", "the views: prompt, what changed, heaviest, cost, calls, search, compare"], ["d", "what changed since the call before"], ["x", "the whole prompt, all texts"], ["b", "bands by kind or by level"], ["/", "search"], ["p", "the other policy"], ["t", "light or dark"], ["Esc", "back"], ["?", "these keys"]];
const NUMBERS = { session: null, run: 0, call: null, base: null, entry: null, line: null };
let doc = null, overview = null, S = {}, isQueued = false, isMoving = false;

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1)), number = (name) => { const value = given.get(name); return value !== null && /^\d{1,7}$/.test(value) ? Number(value) : NUMBERS[name]; };
  const tab = given.get("tab"), theme = given.get("theme");
  S = { session: number("session"), run: number("run"), call: number("call"), base: number("base"), entry: number("entry"), line: number("line"), tab: Object.hasOwn(TABS, tab) ? tab : "prompt", by: given.get("by") === "level" ? "level" : "kind", q: given.get("q") || "", texts: given.has("texts"), theme: ["light", "dark"].includes(theme) ? theme : null };
}

function writeAddress() {
  const kept = new URLSearchParams();
  if (overview?.sessions.length > 1 && S.session !== null) kept.set("session", S.session);
  if (doc) {
    if (S.run) kept.set("run", S.run);
    kept.set("call", theCall().call);
    if (S.base !== null) kept.set("base", theRun().calls[S.base].call);
    if (S.entry !== null) kept.set("entry", S.entry + 1);
    if (S.line !== null) kept.set("line", S.line);
    if (S.tab !== "prompt") kept.set("tab", S.tab);
    if (S.by !== "kind") kept.set("by", S.by);
    if (S.q) kept.set("q", S.q);
    if (S.texts) kept.set("texts", "1");
  }
  if (S.theme) kept.set("theme", S.theme);
  const hash = kept.size ? `#${kept}` : "";
  if (hash !== location.hash) history.replaceState(null, "", hash || location.pathname + location.search);
}

// Numbers in the address are those that people see, from 1; places in the data are counted from 0.
function settle() {
  const run = doc.runs[S.run] ?? doc.runs[S.run = 0], at = (number) => run.calls.findIndex((call) => call.call === number);
  S.call = S.call === null ? firstCall(run) : Math.max(0, at(S.call));
  if (S.base !== null) S.base = at(S.base) < 0 ? null : at(S.base);
  S.entry = S.entry !== null && S.entry >= 1 && S.entry <= doc.entries.length ? S.entry - 1 : null;
  if (S.line !== null && !run.lines[S.line]) S.line = null;
}

const firstCall = (run) => Math.max(0, run.calls.findLastIndex((call) => call.is_answered));

function theme() {
  const dark = S.theme ? S.theme === "dark" : !matchMedia("(prefers-color-scheme: light)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  readColours();
}

function showFigures() {
  const run = theRun(), total = run.total, fewer = (a, b) => b ? `${a <= b ? "−" : "+"}${Math.abs(Math.round(100 * (1 - a / b)))} %` : "";
  const figure = (value, name, more) => h("div", { class: "figure" }, h("b", {}, value), name, h("i", {}, more || "\u00a0"));
  $("figures").replaceChildren(...[
    figure(count(total.calls), "calls", `${count(doc.entries.length)} messages`), figure(short(total.sent_tokens), "tokens sent", `whole history ${short(total.everything_tokens)} (${fewer(total.sent_tokens, total.everything_tokens)})`),
    figure(usd(total.sent_usd), "input", `whole history ${usd(total.everything_usd)}${total.sent_usd !== null && total.everything_usd ? ` (${fewer(total.sent_usd, total.everything_usd)})` : ""}${total.too_large ? `, ${count(total.too_large)} calls too large for the model` : ""}`), figure(percent(total.cached_tokens, total.sent_tokens), "from the cache", `${count(run.calls.filter((call) => call.moved).length)} calls with a moved prefix`),
    figure(count(run.folds.length), "folds", `they saved ${usd(total.folds_usd)}`), figure(short(Math.max(0, ...run.calls.map((call) => call.tokens))), "largest prompt", `limit ${short(run.limit)}`), total.refused ? figure(count(total.refused), "not sent", "larger than the limit") : null,
  ].filter(Boolean));
}

function showCharts() {
  const run = theRun(), marks = [[S.base, colours.fold], [S.call, colours.ink]], tall = innerHeight < 760 ? .75 : 1, n = run.calls.length;
  drawSizes($("sizes"), run, S.by, marks, Math.round(185 * tall));
  drawAnew($("anew"), run, marks, 54);
  drawMap($("map"), doc, run, { marks, entry: S.entry }, Math.round(215 * tall));
  const whole = run.calls[n - 1]?.whole.tokens;
  $("chart-note").textContent = ` · dashed: whole history, up to ${short(whole || 0)} · ▲ fold`;
  $("sizes").setAttribute("aria-label", `Tokens of the prompts of ${n} calls; the view Calls has them as a table. Arrow keys choose a call.`);
  $("anew").setAttribute("aria-label", `Tokens billed anew in ${n} calls; the view Calls has them as a table.`);
  $("map").setAttribute("aria-label", `How sharply each of ${doc.entries.length} messages was shown by each call. Arrow keys left and right choose a call, up and down a message; its life is shown as a table.`);
}

function showLegends() {
  const used = (by, order) => order.filter((one) => theRun().calls.some((call) => call.bands[by].get(one) > 0));
  const bands = S.by === "kind" ? used("kind", KINDS) : used("level", ["tools", ...LEVELS]), levels = LEVELS.filter((level) => level === "covered" || theRun().lines.some((line) => line.kind === "entry" && word(line.level) === level));
  const legend = (title, words, classOf) => h("div", { class: "legend" }, h("span", {}, title), words.map((one) => h("span", {}, swatch(classOf(one)), one)));
  $("legends").replaceChildren(legend("bands:", bands, S.by === "kind" ? kindClass : levelClass), legend("map, from sharp to dull:", levels, levelClass));
}

function render() {
  if (isQueued) return;
  isQueued = true;
  requestAnimationFrame(() => { isQueued = false; paint(); });
}

let shownFor = "";
function paint() {
  if (!doc) { showOverview(); return; }
  const started = performance.now(), run = theRun(), key = document.activeElement?.dataset?.key;
  S.call = Math.max(0, Math.min(S.call, run.calls.length - 1));
  const about = `${S.session} ${S.run} ${S.by} ${document.documentElement.dataset.theme}`;
  if (about !== shownFor) { showFigures(); showLegends(); shownFor = about; }
  showCharts();
  $("bands").textContent = `by ${S.by}`;
  $("bands").setAttribute("aria-label", `Bands by ${S.by}; press for the other`);
  for (const button of $("tabs").children) { if (button.dataset.tab === S.tab) button.setAttribute("aria-current", "page"); else button.removeAttribute("aria-current"); }
  $("panel").replaceChildren(...nodes(TABS[S.tab][1]()));
  $("side").replaceChildren(...nodes(sidePanel()));
  if (key) document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  if (isMoving) document.querySelector("#panel tr.sel")?.scrollIntoView({ block: "nearest" });
  isMoving = false;
  const call = theCall();
  $("said").textContent = `Call ${call.call}: ${count(call.tokens)} tokens, ${count(call.anew)} billed anew${S.entry === null ? "" : `; message ${S.entry + 1}`}`;
  writeAddress();
  document.body.dataset.paint = (performance.now() - started).toFixed(1);
}

const nodes = (parts) => parts.flat(9).filter((part) => part !== null && part !== undefined && part !== false);

function showOverview() {
  $("session").hidden = true;
  for (const id of ["query", "bands", "runs-box"]) $(id).hidden = true;
  $("overview").hidden = false;
  $("name").textContent = overview.title;
  $("origin").textContent = "";
  document.title = "Foveal";
  const heads = [["session", ""], ["from", "text"], ["model", ""], ["last used", ""], ["calls", "n"], ["recorded bill", "n"], ["whole history", "n"], [overview.sent_as, "n"], ["tokens sent", "n"], ["from the cache", "n"], ["folds", "n"]];
  const rows = overview.sessions.map((one, at) => () => row(`session ${at}`, () => { if (one.href) location.href = one.href; else openSession(at); }, [{ text: one.name || "(no name)", kind: "name" }, { text: one.source, kind: "text" }, { text: one.model, kind: "span" }, { text: one.updated, kind: "span" }, ...(one.error ? [{ text: one.error, kind: "why" }] : [[one.calls ? count(one.calls) : "–"], [usd(one.recorded_usd)], [`${usd(one.whole_usd)}${one.too_large ? " *" : ""}`], [usd(one.sent_usd)], [one.sent_tokens ? count(one.sent_tokens) : "–"], [percent(one.cached_tokens, one.sent_tokens)], [one.sent_tokens ? count(one.folds) : "–"]].map(([text]) => ({ text, kind: "n" })))]));
  $("overview").replaceChildren(h("h2", {}, `${count(overview.sessions.length)} sessions`), overview.note ? h("p", { class: "dim" }, overview.note) : "", overview.waiting ? h("p", { class: "dim" }, `${count(overview.waiting)} sessions are still being replayed for their bills; this list loads itself anew.`) : "", table(heads, rows, { caption: `Each session opens by a click or with Enter. Bills are of whole sessions, replies included; the recorded one is by the provider's counts, the others by ours.${overview.sessions.some((one) => one.too_large) ? " *: some of these prompts are larger than the model takes." : ""}` }));
  if (overview.waiting) setTimeout(() => { if (!document.activeElement?.dataset?.key) location.reload(); }, 3000);
  writeAddress();
}

async function openSession(at) {
  S.session = at;
  doc = prepared(await decoded(`session-${at}`));
  settle();
  $("overview").hidden = true;
  $("session").hidden = false;
  for (const id of ["query", "bands"]) $(id).hidden = false;
  $("name").textContent = doc.name;
  $("name").title = doc.name;
  $("origin").textContent = doc.source;
  document.title = `${doc.name} · Foveal`;
  $("runs-box").hidden = doc.runs.length < 2;
  $("runs").replaceChildren(...doc.runs.map((run, i) => h("option", { value: i, selected: i === S.run }, run.name)));
  $("query").value = S.q;
  $("tabs").replaceChildren(...Object.entries(TABS).filter(([tab]) => tab !== "compare" || doc.runs.length > 1).map(([tab, [title]]) => h("button", { type: "button", "data-tab": tab, "data-key": `tab ${tab}`, onclick: () => { S.tab = tab; render(); } }, title)));
  shownFor = "";
  painted.clear();
  paint();
}

function jump(test, back) {
  const calls = theRun().calls, order = calls.map((_, i) => i).filter((i) => (back ? i < S.call : i > S.call) && test(calls[i]));
  if (order.length) goCall(back ? order[order.length - 1] : order[0]);
}

function stepLine(by) {
  const numbers = linesOf(theRun(), S.call), at = numbers.findIndex(isChosen), next = numbers[Math.max(0, Math.min(numbers.length - 1, at < 0 ? by > 0 ? 0 : numbers.length - 1 : at + by))];
  if (next === undefined) return;
  isMoving = true;
  goLine(next)();
}

const stepEntry = (by) => goEntry(Math.max(0, Math.min(doc.entries.length - 1, (S.entry ?? -1) + by)));
const otherPolicy = () => { if (doc.runs.length > 1) { S.run = (S.run + 1) % doc.runs.length; S.line = null; $("runs").value = S.run; render(); } };
const otherTheme = () => { S.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; theme(); render(); };
const otherBands = () => { S.by = S.by === "kind" ? "level" : "kind"; render(); };
const goTab = (tab) => { if (tab && (tab !== "compare" || doc.runs.length > 1)) { S.tab = tab; if (tab === "search") $("query").focus(); render(); } };

const ACTS = {
  ArrowRight: () => goCall(S.call + 1), ArrowLeft: () => goCall(S.call - 1), PageDown: () => goCall(S.call + 10), PageUp: () => goCall(S.call - 10), Home: () => goCall(0), End: () => goCall(theRun().calls.length - 1),
  j: () => stepLine(1), k: () => stepLine(-1), f: () => jump((call) => call.folds, false), F: () => jump((call) => call.folds, true), m: () => jump((call) => call.moved || call.is_cold, false), M: () => jump((call) => call.moved || call.is_cold, true),
  d: () => goTab(S.tab === "changed" ? "prompt" : "changed"), x: () => { S.texts = !S.texts; S.tab = "prompt"; render(); }, b: otherBands, p: otherPolicy, "/": () => { $("query").focus(); $("query").select(); },
  Escape: () => { if (S.entry !== null || S.line !== null || S.base !== null) { S.entry = S.line = S.base = null; render(); } else if (S.tab !== "prompt") goTab("prompt"); else goHome(); },
};

function onKey(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) {
    if (key === "Escape" && doc) { target.blur(); goTab("prompt"); }
    return;
  }
  let act = key === "?" ? showKeys : key === "t" ? otherTheme : null;
  if (doc && !act) act = /^[1-7]$/.test(key) ? () => goTab(Object.keys(TABS)[key - 1]) : target.id === "map" && key === "ArrowDown" ? () => stepEntry(1) : target.id === "map" && key === "ArrowUp" ? () => stepEntry(-1) : Object.hasOwn(ACTS, key) ? ACTS[key] : null;
  if (!act) return;
  event.preventDefault();
  act();
}

function showKeys() {
  $("keys").replaceChildren(h("h2", {}, "Keys"), h("table", {}, KEYS.map(([keys, what]) => h("tr", {}, h("td", {}, h("kbd", {}, keys)), h("td", {}, what)))), h("p", {}, h("button", { type: "button", onclick: () => $("keys").close() }, "Close")));
  $("keys").showModal();
}

function goHome() {
  if (overview.sessions.length > 1 && !overview.home) { doc = null; S.session = null; render(); } else if (overview.home) location.href = overview.home;
}

function tip(event, canvas) {
  const at = callAt(canvas, event, theRun().calls.length);
  $("tip").hidden = at < 0;
  if (at < 0) return;
  const call = theRun().calls[at], place = canvas.id === "map" ? entryAt(canvas, event, doc) : null, life = place === null ? null : lifeAt(theRun(), at, place);
  $("tip").replaceChildren(h("b", {}, `Call ${call.call}`), ` ${count(call.tokens)} tokens · ${usd(call.sent?.cost_usd)}`, h("div", {}, `${count(call.anew)} billed anew${call.moved ? " · prefix moved" : ""}${call.folds ? " · fold" : ""}`),
    ...(place === null ? [...call.bands[S.by]].filter(([, tokens]) => tokens > 0).sort((a, b) => b[1] - a[1]).map(([name, tokens]) => h("div", {}, swatch((S.by === "kind" ? kindClass : levelClass)(name)), `${name} ${count(tokens)}`)) : [h("div", {}, `message ${place + 1}, ${titleOf(place)}: `, life ? life.line >= 0 ? word(theRun().lines[life.line].shown) : "covered" : "not there")]));
  $("tip").style.left = `${Math.min(innerWidth - 245, event.clientX + 14)}px`;
  $("tip").style.top = `${Math.min(innerHeight - 140, event.clientY + 14)}px`;
}

function wire() {
  for (const id of ["sizes", "anew", "map"]) {
    const canvas = $(id);
    canvas.addEventListener("click", (event) => {
      const at = callAt(canvas, event, theRun().calls.length);
      if (at < 0) return;
      if (event.shiftKey) { S.base = Math.min(at, S.call); S.call = Math.max(at, S.call); S.tab = "changed"; } else { S.call = at; S.base = null; }
      if (id === "map" && !event.shiftKey) { S.entry = entryAt(canvas, event, doc); S.line = null; }
      render();
    });
    canvas.addEventListener("mousemove", (event) => tip(event, canvas));
    canvas.addEventListener("mouseleave", () => { $("tip").hidden = true; });
  }
  $("runs").addEventListener("change", (event) => { S.run = Number(event.target.value); S.line = null; render(); });
  $("query").addEventListener("input", (event) => { S.q = event.target.value; S.tab = "search"; render(); });
  $("bands").addEventListener("click", otherBands);
  $("theme").addEventListener("click", otherTheme);
  $("help").addEventListener("click", showKeys);
  $("home").addEventListener("click", (event) => { event.preventDefault(); goHome(); });
  addEventListener("keydown", onKey);
  addEventListener("resize", render);
  addEventListener("hashchange", begin);
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => { theme(); shownFor = ""; render(); });
}

async function begin() {
  readAddress();
  theme();
  const only = overview.sessions.length === 1 && !overview.sessions[0].href ? 0 : null, at = S.session ?? only;
  if (at !== null && overview.sessions[at] && $(`session-${at}`)) await openSession(at);
  else { doc = null; S.session = null; showOverview(); }
  document.body.dataset.ready = "1";
}

(async () => {
  overview = await decoded("overview-data");
  wire();
  await begin();
})().catch((error) => { document.body.append(h("p", { class: "bad" }, `This page could not be drawn: ${error.message}`)); throw error; });
