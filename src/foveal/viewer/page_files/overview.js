// The list of sessions: sorted, filtered, with bills that come while one reads; and reports of measurements.

const MOST_ROWS = 400;
let news = null, isListQueued = false, showsAll = false;

const saving = (one) => one.recorded_usd > 0 && one.sent_usd !== null ? 1 - one.sent_usd / one.recorded_usd : one.whole_usd > 0 && one.sent_usd !== null && !one.too_large ? 1 - one.sent_usd / one.whole_usd : null;
// name, title, kind of cell, value to sort by, text
const columns = () => [
  ["name", say("session"), "name", (one) => one.title || one.name, (one) => [one.title, one.name].filter(Boolean).join(" · ") || say("(no name)")],
  ["project", say("project"), "project", (one) => one.project, (one) => one.project],
  ["updated", say("last used"), "span", (one) => one.updated, (one) => one.updated + (one.is_running ? ` ● ${say("running")}` : "")],
  ["calls", say("calls"), "n", (one) => one.calls, (one) => one.calls ? count(one.calls) : "–"],
  ["pressure", say("of limit"), "n", (one) => one.pressure, (one) => one.pressure === null ? "–" : percent(one.pressure, 1)],
  ["recorded", say("recorded bill"), "n", (one) => one.recorded_usd, (one) => usd(one.recorded_usd)],
  ["sent", sentAs(), "n", (one) => one.sent_usd, (one) => usd(one.sent_usd)],
  ["saving", say("saved"), "n", saving, (one) => saving(one) === null ? "" : saving(one) < 0 ? say("{n} % more", { n: Math.round(-100 * saving(one)) }) : `${Math.round(100 * saving(one))} %`],
  ["whole", say("whole history"), "n", (one) => one.whole_usd, (one) => `${usd(one.whole_usd)}${one.too_large ? " *" : ""}`],
  ["cache", say("from the cache"), "n", (one) => one.sent_tokens ? one.cached_tokens / one.sent_tokens : null, (one) => percent(one.cached_tokens, one.sent_tokens)],
  ["folds", say("folds"), "n", (one) => one.sent_tokens ? one.folds : null, (one) => one.sent_tokens ? count(one.folds) : "–"],
  ["messages", say("messages"), "n", (one) => one.messages, (one) => one.messages ? count(one.messages) : "–"],
  ["model", say("model"), "span", (one) => one.model, (one) => one.model],
].filter(([name, , , value]) => !["project", "pressure", "recorded"].includes(name) || overview.sessions.some((one) => value(one)));

const sentAs = () => S.budget ? say("with {n} tokens", { n: count(S.budget) }) : say(overview.sent_as);

function sortedRows() {
  const wanted = S.q.trim().toLowerCase(), rows = overview.sessions.map((one, at) => [one, at]).filter(([one]) => !wanted || `${one.name}\n${one.title}\n${one.project}\n${one.model}\n${one.source}`.toLowerCase().includes(wanted));
  const [name, isDown] = S.sort ? [S.sort.replace("-", ""), S.sort.startsWith("-")] : [null, false], column = columns().find((one) => one[0] === name);
  if (!column) return rows;
  const value = ([one]) => column[3](one) ?? null, order = (a, b) => a === b ? 0 : a === null || a === "" ? 1 : b === null || b === "" ? -1 : (typeof a === "string" ? a.localeCompare(b) : a - b) * (isDown ? -1 : 1);
  return rows.sort((a, b) => order(value(a), value(b)));
}

// The two bills of all sessions for which both are known, and nothing else: their difference is the reader's money.
function sums() {
  const both = overview.sessions.filter((one) => one.recorded_usd > 0 && one.sent_usd !== null), known = both.length ? both : overview.sessions.filter((one) => one.whole_usd > 0 && one.sent_usd !== null && !one.too_large);
  if (!known.length) return null;
  const of = (figure) => known.reduce((sum, one) => sum + figure(one), 0), before = of((one) => both.length ? one.recorded_usd : one.whole_usd), after = of((one) => one.sent_usd);
  const figure = (value, name, more) => h("div", { class: "figure" }, h("b", {}, value), name, h("i", {}, more));
  return h("section", { id: "sums", "aria-label": say("Totals") }, figure(usd(before), both.length ? say("recorded") : say("whole history"), overview.sessions.length === 1 ? say("1 session, replies included") : say("{n} of {all} sessions, replies included", { n: count(known.length), all: count(overview.sessions.length) })), figure(usd(after), sentAs(), say("in the provider's counts where they are known")), figure(`${after <= before ? "−" : "+"}${Math.abs(Math.round(100 * (1 - after / before)))} %`, usd(Math.abs(before - after)), after <= before ? say("less than before") : say("more than before")));
}

function slider() {
  if (!overview.budgets.length) return null;
  const steps = [0, ...overview.budgets], at = Math.max(0, steps.indexOf(S.budget)), name = (budget) => budget ? say("{n} tokens", { n: count(budget) }) : say(overview.sent_as);
  return h("p", { class: "slider" }, h("label", {}, `${say("at most, in each call:")} `, h("input", { type: "range", id: "budget", "data-key": "budget", min: "0", max: `${steps.length - 1}`, step: "1", value: `${at}`, "aria-valuetext": name(S.budget), oninput: (event) => changeBudget(steps[Number(event.target.value)]) })), h("output", {}, ` ${name(S.budget)}`));
}

function changeBudget(budget) {
  S.budget = budget;
  for (const one of overview.sessions) Object.assign(one, { sent_usd: null, whole_usd: null, sent_tokens: 0, cached_tokens: 0, folds: 0 });
  listen();
  queueList();
}

// Rows as they become known. A page that is a file has no events.
function listen() {
  news?.close();
  if (!overview.events || doc) return;
  news = new EventSource(`${overview.events}?budget=${S.budget}`);
  news.onmessage = (event) => { const told = JSON.parse(event.data); overview.sessions[told.number] = told.row; queueList(); };
}

function queueList() {
  if (isListQueued) return;
  isListQueued = true;
  setTimeout(() => { isListQueued = false; if (!doc) showOverview(); }, 150);
}

function sortBy(name, isNumber) {
  S.sort = S.sort === name ? `-${name}` : S.sort === `-${name}` ? "" : isNumber && !S.sort.endsWith(name) ? `-${name}` : name;
  showOverview();
}

const openRow = (one, at) => { if (one.href) location.href = S.budget ? `${one.href}?budget=${S.budget}` : one.href; else if ($(`session-${at}`)) openSession(at); };

function showOverview() {
  const key = document.activeElement?.dataset?.key;
  $("session").hidden = true;
  for (const id of ["bands", "runs-box", "live"]) $(id).hidden = true;
  $("query").hidden = overview.sessions.length < 2;
  $("query").placeholder = say("filter  /");
  $("overview").hidden = false;
  $("name").textContent = overview.title;
  $("origin").textContent = "";
  document.title = `${overview.title} · Foveal`;
  const shown = columns(), rows = sortedRows(), isChild = (one) => overview.sessions.some((other) => one.name.startsWith(`${other.name}/`));
  const heads = shown.map(([name, title, kind]) => [h("button", { type: "button", class: "go", "data-key": `sort ${name}`, onclick: () => sortBy(name, kind === "n") }, title, S.sort.endsWith(name) && S.sort ? S.sort.startsWith("-") ? " ▾" : " ▴" : ""), kind, { "aria-sort": S.sort === name ? "ascending" : S.sort === `-${name}` ? "descending" : null }]);
  const cellsOf = ([one, at]) => () => row(`session ${at}`, () => openRow(one, at), one.error ? [{ text: one.name, kind: "name", title: one.source }, h("td", { colspan: `${shown.length - 1}`, class: "why" }, one.error)] : shown.map(([name, , kind, , text]) => ({ text: name === "name" && overview.sessions.length < 3000 && isChild(one) ? `↳ ${text(one)}` : text(one), kind, title: name === "name" ? one.source : null })));
  const waiting = overview.sessions.filter((one) => !one.error && !one.sent_tokens && one.calls !== 0).length;
  const few = showsAll ? rows : rows.slice(0, MOST_ROWS), notes = [say("Each session opens by a click or with Enter. Bills are of whole sessions, replies included; where a provider's counts were recorded, all are in these, with the fixed part that the file does not hold."), overview.sessions.some((one) => one.too_large) ? say("*: some of these prompts are larger than the model takes.") : ""];
  $("overview").replaceChildren(...nodes([
    overview.report ? reportElements(overview.report) : null,
    overview.sessions.length ? [h("h2", {}, rows.length === 1 ? say("1 session") : say("{n} sessions", { n: count(rows.length) })), overview.note ? h("p", { class: "dim" }, say(overview.note)) : null, sums(), slider(), overview.events && waiting ? h("p", { class: "dim", id: "waiting" }, waiting === 1 ? say("The bill of 1 session is still being counted; it appears when it is known.") : say("The bills of {n} sessions are still being counted; they appear as they are known.", { n: count(waiting) })) : null, h("div", { class: "wide" }, table(heads, few.map(cellsOf), { caption: notes.join(" ") })), few.length < rows.length ? h("p", {}, h("button", { type: "button", "data-key": "all", onclick: () => { showsAll = true; showOverview(); } }, say("Show all {n} rows", { n: count(rows.length) }))) : null] : null,
  ]));
  if (key) document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  writeAddress();
}

// Charts of measurements: points on two axes, and the table that holds the same figures.
function reportElements(report) {
  const canvases = report.charts.map((chart) => [chart, h("canvas", { role: "img", "aria-label": `${chart.title}. ${say("The table below has the figures.")}` })]);
  requestAnimationFrame(() => canvases.forEach(([chart, canvas], i) => { if (canvas.isConnected) drawScatter(canvas, chart, `report ${i}`); }));
  return [h("h2", {}, report.title), report.paragraphs.map((text) => h("p", {}, text)), h("div", { class: "two" }, canvases.map(([chart, canvas]) => h("figure", { class: "scatter" }, h("h3", {}, chart.title), h("div", {}, canvas), h("p", { class: "dim" }, `↔ ${chart.across} · ↕ ${chart.up}`)))), report.tables.map((one) => h("div", { class: "wide" }, table(one.heads.map((title, i) => [title, i ? "n" : ""]), one.rows.map((cells) => () => h("tr", {}, cells.map((cell, i) => h("td", { class: i ? "n" : null }, cell)))), { caption: one.caption })))];
}
