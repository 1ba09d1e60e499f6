// State, keys and the address. `S` is all that a link to this page has to carry.

const TABS = { prompt: ["Prompt", promptPanel], changed: ["What changed", changedPanel], heaviest: ["Heaviest", heaviestPanel], cost: ["Cost", costPanel], calls: ["Calls", callsPanel], search: ["Search", searchPanel], compare: ["Compare", comparePanel] };
const KEYS = [["← →", "the call before, the next one (Page Up, Page Down: ten; Home, End)"], ["j k", "the next message of the prompt, the one before"], ["f F", "the next fold, the one before"], ["m M", "the next call whose prefix moved, the one before"], ["1 … 7", "the views: prompt, what changed, heaviest, cost, calls, search, compare"], ["d", "what changed since the call before"], ["x", "the whole prompt, all texts"], ["b", "bands by kind or by level"], ["/", "search"], ["p", "the other policy"], ["l", "follow a running session, or stop"], ["t", "light or dark"], ["Esc", "back"], ["?", "these keys"]];
const NUMBERS = { session: null, run: 0, call: null, base: null, entry: null, line: null, budget: 0 };
let doc = null, overview = null, S = {}, isQueued = false, isMoving = false;

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1)), number = (name) => { const value = given.get(name); return value !== null && /^\d{1,7}$/.test(value) ? Number(value) : NUMBERS[name]; };
  const tab = given.get("tab"), theme = given.get("theme");
  S = { session: number("session"), run: number("run"), call: number("call"), base: number("base"), entry: number("entry"), line: number("line"), tab: Object.hasOwn(TABS, tab) ? tab : "prompt", by: given.get("by") === "level" ? "level" : "kind", q: given.get("q") || "", texts: given.has("texts"), theme: ["light", "dark"].includes(theme) ? theme : null, lang: given.get("lang"), sort: /^-?[a-z]+$/.test(given.get("sort") || "") ? given.get("sort") : "", budget: number("budget"), follow: given.get("call") === null };
}

function writeAddress() {
  const kept = new URLSearchParams();
  if (overview?.sessions.length > 1 && S.session !== null) kept.set("session", S.session);
  if (doc) {
    if (S.run) kept.set("run", S.run);
    if (!S.follow || !overview.events) kept.set("call", theCall().call);
    if (S.base !== null) kept.set("base", theRun().calls[S.base].call);
    if (S.entry !== null) kept.set("entry", S.entry + 1);
    if (S.line !== null) kept.set("line", S.line);
    if (S.tab !== "prompt") kept.set("tab", S.tab);
    if (S.by !== "kind") kept.set("by", S.by);
    if (S.q) kept.set("q", S.q);
    if (S.texts) kept.set("texts", "1");
  }
  if (!doc && S.q) kept.set("q", S.q);
  if (!doc && S.sort) kept.set("sort", S.sort);
  if (!doc && S.budget && !overview.home) kept.set("budget", S.budget);
  if (S.theme) kept.set("theme", S.theme);
  if (S.lang) kept.set("lang", S.lang);
  const hash = kept.size ? `#${kept}` : "";
  if (hash !== location.hash) history.replaceState(null, "", hash || location.pathname + location.search);
}

// Numbers in the address are those that people see, from 1; places in the data are counted from 0.
function settle() {
  const run = doc.runs[S.run] ?? doc.runs[S.run = 0], at = (number) => run.calls.findIndex((call) => call.call === number);
  S.call = S.call === null ? overview.events ? run.calls.length - 1 : firstCall(run) : Math.max(0, at(S.call));
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
  const run = theRun(), total = run.total, fewer = (a, b) => b ? `${a <= b ? "−" : "+"}${Math.abs(Math.round(100 * (1 - a / b)))} %` : "", last = run.calls[run.calls.length - 1];
  const figure = (value, name, more) => h("div", { class: "figure" }, h("b", {}, value), name, h("i", {}, more || "\u00a0"));
  const hasReplies = total.output_usd !== null, bill = (input) => input === null ? null : input + (total.output_usd ?? 0), sent = bill(total.sent_usd), everything = bill(total.everything_usd);
  const whole = `${say("whole history {n}", { n: usd(everything) })}${sent !== null && everything ? ` (${fewer(sent, everything)})` : ""}${total.too_large ? say(", {n} calls too large for the model", { n: count(total.too_large) }) : ""}`;
  $("figures").replaceChildren(...[
    figure(count(total.calls), say("calls"), say("{n} messages", { n: count(doc.entries.length) })),
    overview.events && last ? figure(percent(last.tokens, last.limit), say("of the limit now"), say("{n} of {limit} tokens", { n: count(last.tokens), limit: count(last.limit) })) : null,
    figure(short(total.sent_tokens), say("tokens sent"), `${say("whole history {n}", { n: short(total.everything_tokens) })} (${fewer(total.sent_tokens, total.everything_tokens)})`),
    figure(usd(sent), hasReplies ? say("cost, replies included") : say("cost, input only"), whole),
    figure(percent(total.cached_tokens, total.sent_tokens), say("from the cache"), say("{n} calls with a moved prefix", { n: count(run.calls.filter((call) => call.moved).length) })),
    figure(count(run.folds.length), say("folds"), say("they saved {n}", { n: usd(total.folds_usd) })),
    figure(short(run.calls.reduce((most, call) => Math.max(most, call.tokens), 0)), say("largest prompt"), say("limit {n}", { n: short(run.limit) })),
    doc.hidden ? figure(short(doc.hidden), say("not visible here"), say("a fixed part, by the provider's count")) : null,
    total.refused ? figure(count(total.refused), say("not sent"), say("larger than the limit")) : null,
  ].filter(Boolean));
}

function showCharts() {
  const run = theRun(), marks = [[S.base, colours.fold], [S.call, colours.ink]], tall = innerHeight < 760 ? .75 : 1, n = run.calls.length;
  drawSizes($("sizes"), run, S.by, marks, Math.round(185 * tall));
  drawAnew($("anew"), run, marks, 54);
  drawMap($("map"), doc, run, { marks, entry: S.entry }, Math.round(215 * tall));
  const whole = run.calls[n - 1]?.whole.tokens || 0, leaves = run.calls.find((call) => doc.hidden + call.whole.tokens > chartTop(run));
  const keys = [leaves ? say("dashed: whole history, above the chart from call {call} on, up to {n}", { call: leaves.call, n: short(whole) }) : say("dashed: whole history, up to {n}", { n: short(whole) }), say("▲ fold")];
  if (run.calls.some((call) => call.recorded)) keys.push(say("orange line: as it was recorded"));
  if (run.calls.some((call) => call.is_compacted)) keys.push(say("◆ the client compacted"));
  if (doc.hidden) keys.push(say("hatched: not visible here"));
  $("chart-note").textContent = ` · ${keys.join(" · ")}`;
  $("sizes").setAttribute("aria-label", say("Tokens of the prompts of {n} calls; the view Calls has them as a table. Arrow keys choose a call.", { n: count(run.total.calls) }));
  $("anew").setAttribute("aria-label", say("Tokens billed anew in {n} calls; the view Calls has them as a table.", { n: count(run.total.calls) }));
  $("map").setAttribute("aria-label", say("How sharply each of {m} messages was shown by each call. Arrow keys left and right choose a call, up and down a message; its life is shown as a table.", { m: doc.entries.length }));
}

// Sub-agents as lanes on the axis of calls, each a link to its own page.
function showLanes() {
  const n = theRun().calls.length, first = theRun().calls[0]?.call || 1, children = doc.children || [], parent = overview.sessions[0]?.parent;
  $("lanes").hidden = !children.length && !parent;
  const lane = (one) => { const from = one.first ? Math.min(n - 1, Math.max(0, one.first - first)) : 0, to = one.last ? Math.min(n, Math.max(from + 1, one.last - first + 1)) : n, name = one.name.slice(doc.name.length + 1) || one.name; return h("div", { class: "lane" }, h("span", { flex: from }), h(one.href ? "a" : "span", { class: one.first ? "bar" : "bar unplaced", href: one.href || null, flex: to - from, title: one.name, onclick: one.href.startsWith("#") ? () => setTimeout(begin, 0) : null }, name), h("span", { flex: Math.max(0, n - to) })); };
  $("lanes").replaceChildren(...nodes([h("div", { class: "lanename" }, children.length ? say("sub-agents") : "", parent ? h("a", { href: parent }, say("opened by another session")) : null), children.slice(0, 12).map(lane), children.length > 12 ? h("div", { class: "lanename" }, say("and {n} more", { n: count(children.length - 12) })) : null]));
}

function showLegends() {
  const used = (by, order) => order.filter((one) => theRun().calls.some((call) => call.bands[by].get(one) > 0));
  const bands = S.by === "kind" ? used("kind", KINDS) : used("level", ["tools", ...LEVELS]), levels = LEVELS.filter((level) => level === "covered" || theRun().lines.some((line) => line.kind === "entry" && word(line.level) === level));
  const legend = (title, words, classOf) => h("div", { class: "legend" }, h("span", {}, title), words.map((one) => h("span", {}, swatch(classOf(one)), say(one))));
  $("legends").replaceChildren(legend(say("bands:"), bands, S.by === "kind" ? kindClass : levelClass), legend(say("map, from sharp to dull:"), levels, levelClass));
}

function render() {
  if (isQueued) return;
  isQueued = true;
  requestAnimationFrame(() => { isQueued = false; paint(); });
}

function markChosen() {
  for (const button of $("panel").querySelectorAll("button[data-key]")) {
    const [kind, number] = button.dataset.key.split(" "), line = button.closest("tr");
    if (line && (kind === "line" || kind === "entry")) line.classList.toggle("sel", kind === "line" ? isChosen(Number(number)) : S.entry === Number(number));
  }
}

let shownFor = "", panelFor = "";
function paint() {
  if (!doc) { showOverview(); return; }
  const started = performance.now(), run = theRun(), key = document.activeElement?.dataset?.key;
  S.call = Math.max(0, Math.min(S.call, run.calls.length - 1));
  const about = `${S.session} ${S.run} ${S.by} ${document.documentElement.dataset.theme} ${doc.grown || 0}`;
  if (about !== shownFor) { showFigures(); showLegends(); showLanes(); shownFor = about; }
  showCharts();
  showLive();
  $("bands").textContent = S.by === "kind" ? say("by kind") : say("by level");
  $("bands").setAttribute("aria-label", `${$("bands").textContent}: ${say("bands by kind or by level")}`);
  for (const button of $("tabs").children) { if (button.dataset.tab === S.tab) button.setAttribute("aria-current", "page"); else button.removeAttribute("aria-current"); }
  // Another message leaves the table as it is: only the mark moves. So walking over the map stays smooth.
  const shown = [about, S.tab, S.call, S.base, S.q, S.texts, language()].join(" ");
  if (shown !== panelFor) { $("panel").replaceChildren(...nodes(TABS[S.tab][1]())); panelFor = shown; } else markChosen();
  $("side").replaceChildren(...nodes(sidePanel()));
  if (key) document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  if (isMoving) document.querySelector("#panel tr.sel")?.scrollIntoView({ block: "nearest" });
  isMoving = false;
  const call = theCall();
  $("said").textContent = say("Call {n}: {tokens} tokens, {anew} billed anew", { n: call.call, tokens: count(call.tokens), anew: count(call.anew) }) + (S.entry === null ? "" : `; ${say("message {n}", { n: S.entry + 1 })}`);
  writeAddress();
  document.body.dataset.paint = (performance.now() - started).toFixed(1);
}

const nodes = (parts) => parts.flat(9).filter((part) => part !== null && part !== undefined && part !== false);

async function openSession(at, isSame) {
  S.session = at;
  if (!isSame) { doc = prepared(await decoded(`session-${at}`)); settle(); }
  $("overview").hidden = true;
  $("session").hidden = false;
  for (const id of ["query", "bands"]) $(id).hidden = false;
  $("query").placeholder = say("search everything  /");
  $("name").textContent = doc.name;
  $("name").title = doc.name;
  $("origin").textContent = [doc.project, doc.source].filter(Boolean).join(" · ");
  document.title = `${doc.name} · Foveal`;
  $("runs-box").hidden = doc.runs.length < 2;
  $("runs").replaceChildren(...doc.runs.map((run, i) => h("option", { value: i, selected: i === S.run }, run.name)));
  $("query").value = S.q;
  $("tabs").replaceChildren(...Object.entries(TABS).filter(([tab]) => tab !== "compare" || doc.runs.length > 1).map(([tab, [title]]) => h("button", { type: "button", "data-tab": tab, "data-key": `tab ${tab}`, onclick: () => { S.tab = tab; render(); } }, say(title))));
  shownFor = panelFor = "";
  painted.clear();
  paint();
  follow();
}

// A session that another process writes grows here as it grows there. `doc.grown` counts the times.
let isGrowing = false;
function follow() {
  news?.close();
  if (!overview.events) return;
  news = new EventSource(`${overview.events}?have=${possession(doc, overview.reading)}`);
  const waiting = [];
  news.onmessage = (event) => { waiting.push(JSON.parse(event.data)); if (!isGrowing) { isGrowing = true; setTimeout(take, 0); } };
  news.addEventListener("anew", () => location.reload());
  // A stream that broke off is opened again for the parts that are missing by then.
  news.addEventListener("error", () => { news.close(); setTimeout(follow, 2000); });
  const take = () => {
    const started = performance.now();
    for (const more of waiting.splice(0)) grow(doc, more);
    prepareRun(doc, doc.runs[0]);
    doc.grown = (doc.grown || 0) + 1;
    if (S.follow) { S.call = doc.runs[0].calls.length - 1; S.base = null; }
    painted.clear();
    paint();
    setTimeout(() => { isGrowing = false; if (waiting.length) { isGrowing = true; take(); } }, Math.max(200, 5 * (performance.now() - started)));
  };
}

const toggleFollow = () => { if (!overview.events || !doc) return; S.follow = !S.follow; if (S.follow) S.call = theRun().calls.length - 1; render(); };
function showLive() {
  $("live").hidden = !overview.events;
  $("live").textContent = S.follow ? `● ${say("live")}` : `○ ${say("live, paused")}`;
  $("live").setAttribute("aria-pressed", String(Boolean(S.follow)));
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
const otherLanguage = () => { S.lang = language() === "zh" ? "en" : "zh"; writeAddress(); sayAll(); if (doc) openSession(S.session ?? 0, true); else showOverview(); };
const otherTheme = () => { S.theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; theme(); render(); };
const otherBands = () => { S.by = S.by === "kind" ? "level" : "kind"; render(); };
const goTab = (tab) => { if (tab && (tab !== "compare" || doc.runs.length > 1)) { S.tab = tab; if (tab === "search") $("query").focus(); render(); } };

const ACTS = {
  ArrowRight: () => goCall(S.call + 1), ArrowLeft: () => goCall(S.call - 1), PageDown: () => goCall(S.call + 10), PageUp: () => goCall(S.call - 10), Home: () => goCall(0), End: () => goCall(theRun().calls.length - 1),
  j: () => stepLine(1), k: () => stepLine(-1), f: () => jump((call) => call.folds, false), F: () => jump((call) => call.folds, true), m: () => jump((call) => call.moved || call.is_cold, false), M: () => jump((call) => call.moved || call.is_cold, true),
  d: () => goTab(S.tab === "changed" ? "prompt" : "changed"), x: () => { S.texts = !S.texts; S.tab = "prompt"; render(); }, b: otherBands, p: otherPolicy, l: toggleFollow, "/": () => { $("query").focus(); $("query").select(); },
  Escape: () => { if (S.entry !== null || S.line !== null || S.base !== null) { S.entry = S.line = S.base = null; render(); } else if (S.tab !== "prompt") goTab("prompt"); else goHome(); },
};

function onKey(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement) {
    if (key === "Escape") { target.blur(); if (doc) goTab("prompt"); }
    return;
  }
  let act = key === "?" ? showKeys : key === "t" ? otherTheme : key === "/" ? ACTS["/"] : null;
  if (doc && !act) act = /^[1-7]$/.test(key) ? () => goTab(Object.keys(TABS)[key - 1]) : target.id === "map" && key === "ArrowDown" ? () => stepEntry(1) : target.id === "map" && key === "ArrowUp" ? () => stepEntry(-1) : Object.hasOwn(ACTS, key) ? ACTS[key] : null;
  if (!act) return;
  event.preventDefault();
  act();
}

function showKeys() {
  $("keys").replaceChildren(h("h2", {}, say("Keys")), h("table", {}, KEYS.map(([keys, what]) => h("tr", {}, h("td", {}, h("kbd", {}, keys)), h("td", {}, say(what))))), h("p", {}, h("button", { type: "button", onclick: () => $("keys").close() }, say("Close"))));
  $("keys").showModal();
}

function goHome() {
  if (overview.sessions.length > 1 && !overview.home) { doc = null; S.session = null; S.q = ""; $("query").value = ""; news?.close(); render(); } else if (overview.home) location.href = overview.home;
}

function tip(event, canvas) {
  const at = callAt(canvas, event, theRun().calls.length);
  $("tip").hidden = at < 0;
  if (at < 0) return;
  const call = theRun().calls[at], place = canvas.id === "map" ? entryAt(canvas, event, doc) : null, life = place === null ? null : lifeAt(theRun(), at, place);
  $("tip").replaceChildren(h("b", {}, say("Call {n}", { n: call.call })), ` ${say("{n} tokens", { n: count(call.tokens) })} · ${usd(call.sent?.cost_usd)}`, h("div", {}, [say("{n} billed anew", { n: count(call.anew) }), call.moved ? say("prefix moved") : "", call.folds ? say("▲ fold") : "", call.is_compacted ? say("◆ the client compacted") : ""].filter(Boolean).join(" · ")),
    ...(place === null ? [...call.bands[S.by]].filter(([, tokens]) => tokens > 0).sort((a, b) => b[1] - a[1]).map(([name, tokens]) => h("div", {}, swatch((S.by === "kind" ? kindClass : levelClass)(name)), `${say(name)} ${count(tokens)}`)) : [h("div", {}, `${say("message {n}", { n: place + 1 })}, ${titleOf(place)}: `, sayLevel(life ? life.line >= 0 ? word(theRun().lines[life.line].shown) : "covered" : "absent"))]));
  $("tip").style.left = `${Math.min(innerWidth - 245, event.clientX + 14)}px`;
  $("tip").style.top = `${Math.min(innerHeight - 140, event.clientY + 14)}px`;
}

function wire() {
  // Paper is white: pictures are drawn in its colours while the page is printed.
  addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; readColours(); if (doc) showCharts(); });
  addEventListener("afterprint", () => { theme(); render(); });
  for (const id of ["sizes", "anew", "map"]) {
    const canvas = $(id);
    canvas.addEventListener("click", (event) => {
      const at = callAt(canvas, event, theRun().calls.length);
      if (at < 0) return;
      if (event.shiftKey) { S.base = Math.min(at, S.call); S.call = Math.max(at, S.call); S.tab = "changed"; } else { S.call = at; S.base = null; }
      S.follow = S.call === theRun().calls.length - 1;
      if (id === "map" && !event.shiftKey) { S.entry = entryAt(canvas, event, doc); S.line = null; }
      render();
    });
    canvas.addEventListener("mousemove", (event) => tip(event, canvas));
    canvas.addEventListener("mouseleave", () => { $("tip").hidden = true; });
  }
  $("runs").addEventListener("change", (event) => { S.run = Number(event.target.value); S.line = null; render(); });
  $("query").addEventListener("input", (event) => { S.q = event.target.value; if (doc) { S.tab = "search"; render(); } else queueList(); });
  $("language").addEventListener("click", otherLanguage);
  $("live").addEventListener("click", toggleFollow);
  $("bands").addEventListener("click", otherBands);
  $("theme").addEventListener("click", otherTheme);
  $("help").addEventListener("click", showKeys);
  $("home").addEventListener("click", (event) => { event.preventDefault(); goHome(); });
  addEventListener("keydown", onKey);
  addEventListener("resize", render);
  addEventListener("hashchange", begin);
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => { theme(); shownFor = ""; render(); });
}

// Words that stand in the frame of the page.
function sayAll() {
  document.documentElement.lang = language();
  for (const one of document.querySelectorAll("[data-say]")) one.textContent = say(one.dataset.say);
  for (const one of document.querySelectorAll("[data-label]")) one.setAttribute("aria-label", say(one.dataset.label));
  $("language").textContent = language() === "zh" ? "English" : "中文";
  $("language").lang = language() === "zh" ? "en" : "zh";
  shownFor = panelFor = "";
}

async function begin() {
  readAddress();
  sayAll();
  theme();
  const only = overview.sessions.length === 1 && !overview.sessions[0].href ? 0 : null, at = S.session ?? only;
  if (at !== null && overview.sessions[at] && $(`session-${at}`)) await openSession(at);
  else { doc = null; S.session = null; S.budget ||= overview.budget; $("query").value = S.q; showOverview(); listen(); }
  document.body.dataset.ready = "1";
}

(async () => {
  overview = await decoded("overview-data");
  wire();
  await begin();
})().catch((error) => { document.body.append(h("p", { class: "bad" }, say("This page could not be drawn: {error}", { error: error.message }))); throw error; });
