// The panels below the charts, and the one of the selected message beside them.

const word = (number) => doc.words[number];
const swatch = (kind) => h("u", { class: kind, "aria-hidden": "true" });
const theRun = () => doc.runs[S.run];
const theCall = () => theRun().calls[S.call];
const goCall = (at) => { S.call = at; S.base = null; render(); };
const goEntry = (place) => { S.entry = place; S.line = null; render(); };

function lineKind(line) {
  if (line.kind === "range") return word(line.level) === "summary" ? "summary" : "covered";
  if (line.first < 0) return line.kind;
  return line.shares.length ? word(line.shares.reduce((a, b) => b[2] > a[2] ? b : a)[0]) : doc.entries[line.first].role;
}

// A message is called by its tool, where it has one: "bash · call" asks for it, "bash · result" answers.
function entryName(place, name) {
  const { role } = doc.entries[place];
  return role === "tool" && name !== role ? `${name} · result` : role === "assistant" && name !== role ? `${name} · call` : name;
}

const lineName = (line) => line.kind === "range" ? lineKind(line) : line.first < 0 ? word(line.name) : entryName(line.first, word(line.name));
const titleOf = (place) => entryName(place, word(doc.entries[place].name));
const linePlace = (line) => line.first < 0 ? "–" : line.kind === "range" && line.last > line.first ? `${line.first + 1}–${line.last + 1}` : `${line.first + 1}`;
const goLine = (number) => () => { const line = theRun().lines[number]; if (line.kind === "entry") { goEntry(line.first); } else { S.line = number; S.entry = null; render(); } };
const isChosen = (number) => { const line = theRun().lines[number]; return line.kind === "entry" ? S.entry === line.first : S.line === number; };

const LINE_HEADS = [["message", ""], ["kind", ""], ["shown", ""], ["tokens", "n"], ["saved", "n saved"], ["cache", ""], ["why", "because"], ["as it was sent", "text"]];

function lineRow(number, cache, kind) {
  const line = theRun().lines[number], saved = line.raw - line.tokens, shown = word(line.shown);
  const why = [word(line.policy), word(line.because)].filter(Boolean).join(": ");
  return row(`line ${number}`, goLine(number), [
    { text: linePlace(line) }, { text: lineName(line), mark: swatch(kindClass(lineKind(line))), kind: "name", title: lineName(line) },
    { text: shown, mark: swatch(levelClass(word(line.level))), kind: "shown" }, { text: count(line.tokens), kind: "n" }, { text: saved > 0 ? count(saved) : "", kind: "n good saved" },
    { text: cache === "cache" ? "cache" : cache, kind: cache === "cache" ? "cached" : "anew" }, { text: why, kind: "because", title: why }, { text: flat(textOf(doc, line), 240), kind: "text" },
  ], [isChosen(number) && "sel", kind].filter(Boolean).join(" "));
}

function partElements(parts, leftOut, isStandIn) {
  const level = (part) => word(part[1]) === "full" ? "" : ` · ${word(part[1])}`;
  return [...parts.flatMap((part) => [h("div", { class: "parttitle" }, word(part[0]) + level(part)), h("pre", { class: isStandIn && word(part[1]) !== "full" ? "standin" : null, tabindex: "0", dir: "auto" }, doc.texts[part[2]] || "(nothing)")]), leftOut ? h("p", { class: "dim" }, `${count(leftOut)} more parts are not in this page.`) : null];
}

// Why this call cost what it cost, in one sentence.
function billText(call) {
  if (!call.sent) return "No prompt could be sent: the part that must be there is larger than the limit.";
  const { tokens, cached, cost_usd: cost } = call.sent, again = Math.min(call.moved || 0, call.anew), fresh = call.anew - again;
  const money = (n, price) => price === null || price === undefined ? "" : ` (${usd(n * price / 1e6)})`;
  const parts = [`${count(cached)} tokens came from the cache${money(cached, call.price_read)}`, `${count(call.anew)} were billed anew${money(call.anew, call.price_write)}`];
  const because = call.is_cold ? "the provider's cache had forgotten the prompt before" : again ? `${count(again)} of them because the prefix moved; ${count(fresh)} are new or were not cached yet` : "they are new or were not cached yet";
  const reply = call.is_answered ? ` The reply of ${count(call.output)} tokens: ${usd(call.output_usd)}.` : "";
  return `${cost === null ? "Price unknown" : `${usd(cost)} for the input`}: of ${count(tokens)} tokens, ${parts.join(", ")}: ${because}.${reply}`;
}

function otherCounts(call) {
  const found = [];
  if (call.reported) found.push(`The provider counted ${count(call.reported.read_tokens + call.reported.written_tokens + call.reported.plain_tokens)} tokens, ${count(call.reported.read_tokens)} from its cache: ${usd(call.reported.usd)}.`);
  if (call.recorded) found.push(`As it was recorded: ${count(call.recorded.tokens)} tokens, ${count(call.recorded.cached)} from the cache, ${usd(call.recorded.cost_usd)} with the reply.`);
  found.push(`The whole history would have been ${count(call.whole.tokens)} tokens, ${usd(call.whole.cost_usd)}${call.fits_whole ? "" : "; more than the model takes"}.`);
  return found.join(" ");
}

function callHead(call) {
  const title = `Call ${call.call}`, state = call.is_answered ? "" : " · the next one, not answered yet";
  const foldsHere = theRun().folds.filter((fold) => fold.call === call.call);
  return [
    h("h2", {}, title, h("small", {}, ` of ${theRun().calls[theRun().calls.length - 1].call} · ${call.model} · ${count(call.tokens)} of ${count(call.limit)} tokens${state}`)),
    ruler(call), h("p", {}, billText(call), " ", h("span", { class: "dim" }, otherCounts(call))),
    (call.moves || []).map((move) => h("div", { class: "note moved" }, h("b", {}, `The prefix moved: ${move.who}. `), `${move.what}. `, move.tokens ? `${count(move.tokens)} tokens from there on are billed anew${move.usd === null || move.usd === undefined ? "" : `, ${usd(move.usd)} more than from the cache`}.` : "")),
    foldsHere.map((fold) => h("div", { class: "note" }, h("b", { class: "fold" }, `▲ ${fold.kind} fold. `), `${fold.reason}. It made this and later prompts ${count(fold.saved)} tokens smaller. ${foldWorth(fold)}`)),
    call.moves?.length || call.is_cold ? null : S.call ? h("div", { class: "note still" }, "The prefix did not move: this prompt begins with the one before it.") : null,
  ];
}

function foldWorth(fold) {
  if (fold.net_usd === null || fold.net_usd === undefined) return "";
  const even = fold.break_even ? `it had paid for itself by call ${fold.break_even}` : fold.break_even_expected ? `it will have paid for itself by call ${fold.break_even_expected}` : "it has not paid for itself";
  return `${fold.cost_usd < 0 ? `Its own call became ${usd(-fold.cost_usd)} cheaper` : `Its own call cost ${usd(fold.cost_usd)} more`}, the ${fold.calls_since - 1} calls since saved ${usd(fold.saved_usd)}: ${even}.`;
}

function ruler(call) {
  const bands = [...call.bands[S.by]].filter(([, tokens]) => tokens > 0), classOf = S.by === "kind" ? kindClass : levelClass, order = S.by === "kind" ? KINDS : ["tools", ...LEVELS.slice().reverse()];
  bands.sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]));
  const text = bands.map(([name, tokens]) => `${name} ${count(tokens)}`).join(", ");
  return [h("div", { class: "ruler", role: "img", "aria-label": `Made of ${text}` }, bands.map(([name, tokens]) => h("span", { class: classOf(name), flex: tokens, title: `${name}: ${count(tokens)} tokens` })), h("span", { class: "free", flex: Math.max(0, call.limit - call.tokens) })),
    h("div", { class: "cachebar" }, h("span", { width: `${Math.min(100, 100 * (call.sent?.cached || 0) / Math.max(call.limit, call.tokens))}%` }))];
}

function promptPanel() {
  const run = theRun(), call = theCall(), numbers = linesOf(run, S.call), cache = cacheStates(run, S.call, numbers), rows = [];
  numbers.forEach((number, i) => {
    rows.push(() => lineRow(number, cache[i]));
    if (S.texts) rows.push(() => h("tr", { class: "whole" }, h("td", { colspan: "8" }, partElements(partsOf(doc, run.lines[number]), run.lines[number].left_out, true))));
  });
  const rest = [["tools", call.tools], ["framing", call.framing]].map(([name, tokens]) => h("tr", {}, h("td", {}, ""), h("td", {}, name), h("td", {}), h("td", { class: "n" }, count(tokens)), h("td", { colspan: "4" })));
  return [callHead(call), h("p", {}, h("button", { type: "button", "aria-pressed": String(S.texts), "data-key": "texts", onclick: () => { S.texts = !S.texts; render(); } }, S.texts ? "Hide the texts" : "Read the whole prompt"), h("span", { class: "dim" }, ` ${count(numbers.length)} lines, in the order in which they were sent`)), table(LINE_HEADS, [...rows, ...rest])];
}

function changedPanel() {
  const run = theRun(), at = S.base ?? Math.max(0, S.call - 1), was = linesOf(run, at), now = linesOf(run, S.call), cache = cacheStates(run, S.call, now);
  let same = 0;
  while (same < was.length && same < now.length && was[same] === now[same]) same++;
  const tokens = (numbers) => numbers.reduce((sum, number) => sum + run.lines[number].tokens, 0), key = (number) => { const line = run.lines[number]; return line.kind === "range" ? `range ${line.first}` : line.first < 0 ? `${line.kind} ${line.name}` : line.first; };
  const had = new Set(was), has = new Set(now), places = new Set(was.map(key));
  const gone = was.slice(same).filter((number) => !has.has(number)), come = now.slice(same).map((number, i) => [number, cache[same + i], had.has(number) ? "again" : places.has(key(number)) ? "changed" : "new"]);
  const calls = run.calls.slice(Math.min(at, S.call) + 1, S.call + 1), moves = calls.flatMap((call) => (call.moves || []).map((move) => [call, move])), of = (kind) => tokens(come.filter(([, , one]) => one === kind).map(([number]) => number));
  return [
    h("h2", {}, `From call ${run.calls[at].call} to call ${theCall().call}`),
    h("p", {}, `${count(tokens(now.slice(0, same)) + theCall().tools)} tokens at the beginning are the same. ${count(tokens(gone))} are gone or were reshaped, ${count(of("changed"))} have another form, ${count(of("again"))} are the same behind the change, ${count(of("new"))} are new.`),
    moves.length ? moves.map(([call, move]) => h("div", { class: "note moved" }, h("b", {}, `Call ${call.call}, ${move.who}: `), move.what, move.tokens ? `. ${count(move.tokens)} tokens from there on had to be billed anew${move.usd === null || move.usd === undefined ? "" : `, ${usd(move.usd)} more than from the cache`}.` : ".")) : h("div", { class: "note still" }, "Nothing moved: the later prompt begins with all of the earlier one."),
    h("p", { class: "dim" }, moves.length ? `In all, ${count(calls.reduce((sum, call) => sum + (call.moved || 0), 0))} tokens were billed anew for that: behind the first change everything is, once. ` : "", "Shift-click another call in a chart to compare with that one."),
    table(LINE_HEADS, [...gone.map((number) => () => lineRow(number, "–", "gone")), ...come.map(([number, state, kind]) => () => lineRow(number, state, kind === "again" ? "" : kind))], { caption: "Red: gone or reshaped. Pink: another form. Green: new. Plain: the same, behind the change." }),
  ];
}

function heaviestPanel() {
  const run = theRun(), entries = doc.entries.map((entry, place) => [place, sentOf(run, place)]).filter(([, tokens]) => tokens).sort((a, b) => b[1] - a[1]).slice(0, 100);
  const groups = new Map(), add = (name, kind, tokens, messages) => { const found = groups.get(name) || { kind, tokens: 0, messages: 0 }; found.tokens += tokens; found.messages += messages; groups.set(name, found); };
  doc.entries.forEach((entry, place) => { const name = word(entry.name); add(entry.role === "tool" ? `${name}: results` : name === entry.role ? name : `${name}: calls`, entry.role === "tool" ? "tool result" : name === entry.role ? entry.role : "tool call", sentOf(run, place), 1); });
  run.lines.forEach((line, number) => { if (line.kind !== "entry") add(line.kind === "range" ? lineKind(line) : `${line.kind} ${word(line.name)}`, lineKind(line), line.tokens * run.uses[number], 1); });
  add("tools and framing", "tools", run.calls.reduce((sum, call) => sum + call.tools + call.framing, 0), 1);
  const all = [...groups].filter(([, one]) => one.tokens).sort((a, b) => b[1].tokens - a[1].tokens), total = all.reduce((sum, [, one]) => sum + one.tokens, 0);
  return [
    h("h2", {}, "Heaviest over the whole session"),
    table([["tool or kind", ""], ["tokens sent", "n"], ["share", "n"], ["messages", "n"]], all.slice(0, 40).map(([name, one]) => h("tr", {}, h("td", {}, swatch(kindClass(one.kind)), name), h("td", { class: "n" }, count(one.tokens)), h("td", { class: "n" }, percent(one.tokens, total)), h("td", { class: "n" }, count(one.messages)))), { caption: "Tokens of all prompts together, by tool and kind" }),
    h("h3", {}, "Messages"),
    table([["message", ""], ["kind", ""], ["tokens sent", "n"], ["its own size", "n"], ["calls", "n"], ["text", "text"]], entries.map(([place, tokens]) => () => row(`entry ${place}`, () => goEntry(place), [{ text: `${place + 1}` }, { text: titleOf(place), kind: "name" }, { text: count(tokens), kind: "n" }, { text: count(rawOf(run, place)), kind: "n" }, { text: count(run.lives[place].filter((life) => life.line >= 0).reduce((sum, life) => sum + life.to - life.from + 1, 0)), kind: "n" }, { text: flat(originalOf(place), 200), kind: "text" }], S.entry === place && "sel")), { caption: "Each message with the tokens that all calls together sent of it" }),
  ];
}

const originalOf = (place) => doc.entries[place].parts.map((part) => doc.texts[part[2]]).join("\n");

function costPanel() {
  const run = theRun(), total = run.total, movers = new Map();
  for (const call of run.calls) for (const move of call.moves || []) { const found = movers.get(move.who) || [0, 0, 0]; movers.set(move.who, [found[0] + 1, found[1] + move.tokens, found[2] + (move.usd || 0)]); }
  const sums = [["tokens sent", count(total.sent_tokens), count(total.everything_tokens)], ["of them from the cache", percent(total.cached_tokens, total.sent_tokens), percent(total.everything_cached_tokens, total.everything_tokens)], ["input", usd(total.sent_usd), usd(total.everything_usd)], ["replies", usd(total.output_usd), usd(total.output_usd)]];
  if (total.reported_calls) sums.push([`input by the provider's counts, ${total.reported_calls} calls`, usd(total.reported_usd), ""]);
  return [
    h("h2", {}, "Cost"),
    table([["", ""], ["sent", "n"], ["whole history", "n"]], sums.map((cells) => h("tr", {}, cells.map((cell, i) => h("td", { class: i ? "n" : null }, cell)))), { caption: `All ${count(total.calls)} answered calls. Counted by ${run.counted}. Prices are estimates from the price table.${total.too_large ? ` ${count(total.too_large)} of the whole histories are larger than the model takes.` : ""}`, class: "small" }),
    h("h3", {}, "Folds"),
    run.folds.length ? table([["call", ""], ["kind", ""], ["tokens fewer", "n"], ["billed anew", "n"], ["its call", "n"], ["saved since", "n"], ["in all", "n"], ["paid by", "n"], ["why", "why"]], run.folds.map((fold) => () => row(`fold ${fold.call}`, () => { S.tab = "prompt"; goCall(Math.max(0, run.calls.findIndex((call) => call.call === fold.call))); }, [{ text: `${fold.call}` }, fold.kind, { text: count(fold.saved), kind: "n" }, { text: count(fold.billed_anew), kind: "n" }, { text: usd(fold.cost_usd), kind: "n" }, { text: usd(fold.saved_usd), kind: "n" }, { text: usd(fold.net_usd), kind: fold.net_usd < 0 ? "n bad" : "n good" }, { text: fold.break_even ? `call ${fold.break_even}` : fold.break_even_expected ? `call ${fold.break_even_expected}?` : "–", kind: "n" }, { text: fold.reason, kind: "why" }])), { caption: "Every fold: the price of its own call, and the savings of all calls after it" }) : h("p", {}, "No fold was made."),
    run.next_fold ? h("p", { class: "dim" }, `The next fold: the messages take ${count(run.next_fold.messages)} of ${count(run.next_fold.due)} tokens; at ${count(run.next_fold.growth)} a call, a fold is due in about ${count(run.next_fold.calls_until_forced)} calls.`) : null,
    movers.size ? [h("h3", {}, "What moved the prefix"), table([["by", ""], ["times", "n"], ["tokens behind it", "n"], ["USD more", "n"]], [...movers].map(([who, [times, tokens, money]]) => h("tr", {}, h("td", {}, who), h("td", { class: "n" }, count(times)), h("td", { class: "n" }, count(tokens)), h("td", { class: "n" }, usd(money)))), { class: "small" })] : null,
    run.notes.length ? [h("h3", {}, "Notes"), run.notes.map((note) => h("p", { class: "dim" }, note))] : null,
  ];
}

function callsPanel() {
  const run = theRun();
  return [h("h2", {}, "All calls"), table([["call", ""], ["tokens", "n"], ["of limit", "n"], ["cache", "n"], ["anew", "n"], ["input", "n"], ["whole history", "n"], ["folds", "n"], ["prefix moved by", "why"]], run.calls.map((call, at) => () => row(`call ${at}`, () => { S.tab = "prompt"; goCall(at); }, [{ text: `${call.call}` }, { text: count(call.tokens), kind: "n" }, { text: percent(call.tokens, call.limit), kind: "n" }, { text: call.sent ? count(call.sent.cached) : "not sent", kind: "n" }, { text: count(call.anew), kind: "n" }, { text: usd(call.sent?.cost_usd), kind: "n" }, { text: count(call.whole.tokens), kind: "n" }, { text: call.folds ? `${call.folds}` : "", kind: "n" }, { text: (call.moves || []).map((move) => move.who).join(", ") || (call.is_cold ? "cold cache" : ""), kind: "why" }], at === S.call && "sel")), { caption: "The figures of the charts" })];
}

function searchPanel() {
  const wanted = S.q.trim().toLowerCase(), hits = [];
  if (wanted.length > 1) doc.entries.forEach((entry, place) => { const text = originalOf(place), at = text.toLowerCase().indexOf(wanted); if (at >= 0) hits.push([place, text.slice(Math.max(0, at - 50), at + 200)]); });
  const standIns = new Map();
  if (wanted.length > 1) theRun().lines.forEach((line, number) => { if (line.kind === "entry") return; const text = textOf(doc, line), at = text.toLowerCase().indexOf(wanted); if (at >= 0) standIns.set(number, text.slice(Math.max(0, at - 50), at + 200)); });
  const stateOf = (place) => { const life = lifeAt(theRun(), S.call, place); return !life ? "not in it" : life.line >= 0 ? word(theRun().lines[life.line].level) : "covered"; };
  return [
    h("h2", {}, S.q ? `${count(hits.length)} messages hold “${S.q}”` : "Search everything that was seen"),
    wanted.length > 1 ? null : h("p", { class: "dim" }, "Write at least two characters into the box at the top (key /)."),
    hits.length ? table([["message", ""], ["kind", ""], [`at call ${theCall().call}`, ""], ["text", "text"]], hits.slice(0, 1000).map(([place, text]) => () => row(`entry ${place}`, () => goEntry(place), [{ text: `${place + 1}` }, { text: titleOf(place), mark: swatch(kindClass(doc.entries[place].role)), kind: "name" }, { text: stateOf(place), mark: swatch(levelClass(stateOf(place))), kind: "shown" }, { text: flat(text, 260), kind: "text" }], S.entry === place && "sel"))) : null,
    standIns.size ? [h("h3", {}, `${count(standIns.size)} summaries and texts beside the conversation hold it too`), table([["messages", ""], ["kind", ""], ["text", "text"]], [...standIns].slice(0, 300).map(([number, text]) => () => row(`line ${number}`, goLine(number), [{ text: linePlace(theRun().lines[number]) }, { text: lineName(theRun().lines[number]), kind: "name" }, { text: flat(text, 260), kind: "text" }], isChosen(number) && "sel")))] : null,
  ];
}

function comparePanel() {
  const one = theRun(), other = doc.runs[(S.run + 1) % doc.runs.length], at = Math.min(S.call, other.calls.length - 1), sum = (run, figure) => run.calls.reduce((all, call) => all + (figure(call) || 0), 0);
  const rows = [["tokens sent", (run) => count(run.total.sent_tokens)], ["from the cache", (run) => percent(run.total.cached_tokens, run.total.sent_tokens)], ["billed anew", (run) => count(sum(run, (call) => call.anew))], ["input", (run) => usd(run.total.sent_usd)], ["folds", (run) => count(run.folds.length)], ["calls with a moved prefix", (run) => count(sum(run, (call) => call.moved ? 1 : 0))], ["largest prompt", (run) => count(Math.max(...run.calls.map((call) => call.tokens)))], ["not sent", (run) => count(run.total.refused)]];
  const stateOf = (run, place) => { const life = lifeAt(run, at, place); return !life ? "absent" : life.line >= 0 ? word(run.lines[life.line].shown) : "covered"; };
  const differing = doc.entries.map((_, place) => [place, stateOf(one, place), stateOf(other, place)]).filter(([, a, b]) => a !== b);
  const canvases = [one, other].map((run) => [run, h("canvas", { role: "img", "aria-label": `Tokens of each prompt, ${run.name}` })]);
  requestAnimationFrame(() => canvases.forEach(([run, canvas]) => { if (canvas.isConnected) drawSizes(canvas, run, S.by, [[at, colours.ink]], 120); }));
  return [
    h("h2", {}, `${one.name} and ${other.name}`),
    table([["", ""], [one.name, "n"], [other.name, "n"]], rows.map(([name, figure]) => h("tr", {}, h("td", {}, name), h("td", { class: "n" }, figure(one)), h("td", { class: "n" }, figure(other)))), { class: "small" }),
    h("div", { class: "two" }, canvases.map(([run, canvas]) => h("div", {}, h("h3", {}, run.name), h("div", {}, canvas)))),
    h("h3", {}, `At call ${theCall().call}, ${count(differing.length)} messages are shown differently`),
    table([["message", ""], ["kind", ""], [one.name, ""], [other.name, ""], ["text", "text"]], differing.map(([place, a, b]) => () => row(`entry ${place}`, () => goEntry(place), [{ text: `${place + 1}` }, { text: titleOf(place), kind: "name" }, { text: a, mark: swatch(levelClass(a)), kind: "shown" }, { text: b, mark: swatch(levelClass(b)), kind: "shown" }, { text: flat(originalOf(place), 200), kind: "text" }], S.entry === place && "sel"))),
  ];
}

function sidePanel() {
  if (S.line !== null && theRun().lines[S.line]) return linePanel(theRun().lines[S.line]);
  if (S.entry === null) return [h("p", { class: "dim" }, "Choose a message in the table or on the map: its life through all calls, its stand-in and its original are shown here.")];
  return entryPanel(S.entry);
}

function linePanel(line) {
  const isRange = line.kind === "range";
  return [
    h("h2", {}, swatch(kindClass(lineKind(line))), lineName(line), h("small", {}, isRange ? ` messages ${linePlace(line)} · ${count(line.tokens)} tokens in place of ${count(line.raw)}` : ` ${line.kind} · ${count(line.tokens)} tokens`)),
    h("p", { class: "dim" }, [word(line.policy), word(line.because)].filter(Boolean).join(": ")),
    partElements(partsOf(doc, line), line.left_out, true),
    isRange ? [h("h3", {}, `It stands for ${count(line.entries)} messages`), table([["message", ""], ["kind", ""], ["text", "text"]], Array.from({ length: line.last - line.first + 1 }, (_, i) => line.first + i).filter((place) => lifeAt(theRun(), S.call, place)?.line === COVERED).slice(0, 400).map((place) => () => row(`entry ${place}`, () => goEntry(place), [{ text: `${place + 1}` }, { text: titleOf(place), kind: "name" }, { text: flat(originalOf(place), 120), kind: "text" }])))] : null,
  ];
}

// One summary holds the state of all ranges, where pins and requests split the covered messages.
function summaryBeside(cover) {
  const lines = linesOf(theRun(), S.call).map((number) => theRun().lines[number]), summary = lines.find((line) => line.kind === "range" && line !== cover && word(line.level) === "summary");
  return word(cover.level) === "summary" || !summary ? null : [h("h3", {}, "and this summary, which covers it too"), partElements(summary.parts, 0, true)];
}

function entryPanel(place) {
  const run = theRun(), entry = doc.entries[place], lives = run.lives[place], call = theCall(), now = lifeAt(run, S.call, place), n = run.calls.length;
  const levelOf = (life) => life.line >= 0 ? word(run.lines[life.line].level) : "covered", first = lives[0]?.from ?? n, whole = rawOf(run, place) * (n - first);
  const shown = now && now.line >= 0 ? run.lines[now.line] : null, cover = now && now.line === COVERED ? run.lines[coverAt(run, S.call, place)] : null;
  const recalls = doc.recalls.filter(([, from, to]) => from <= place && place <= to);
  const reasonOf = (life) => { const line = life.line >= 0 ? run.lines[life.line] : run.lines[coverAt(run, life.from, place)]; return line ? [word(line.policy), word(line.because)].filter(Boolean).join(": ") : ""; };
  const callName = (at) => run.calls[at].call;
  return [
    h("h2", {}, swatch(kindClass(entry.role === "tool" ? "tool result" : entry.role)), titleOf(place), h("small", {}, ` message ${place + 1} of ${doc.entries.length} · ${count(rawOf(run, place))} tokens · ${entry.id.slice(0, 12)}`)),
    lives.length ? h("div", { class: "lifebar" }, first > 0 && h("span", { flex: first }), lives.map((life, i) => h("button", { type: "button", class: levelClass(levelOf(life)), flex: life.to - life.from + 1, "aria-label": `${levelOf(life)}, calls ${callName(life.from)} to ${callName(life.to)}`, "data-key": `life ${i}`, title: `${levelOf(life)}: calls ${callName(life.from)}–${callName(life.to)}`, onclick: () => goCall(life.from) }))) : h("p", {}, "No call of this session has shown it."),
    h("p", { class: "dim" }, `${count(sentOf(run, place))} tokens of it were sent over ${count(n - first)} calls; whole each time it would have been ${count(whole)}.`),
    table([["calls", ""], ["shown", ""], ["tokens", "n"], ["why", ""]], lives.map((life, i) => row(`stage ${i}`, () => goCall(life.from), [{ text: life.from === life.to ? `${callName(life.from)}` : `${callName(life.from)}–${callName(life.to)}`, kind: "span" }, { text: life.line >= 0 ? word(run.lines[life.line].shown) : "covered", mark: swatch(levelClass(levelOf(life))), kind: "shown" }, { text: life.line >= 0 ? count(run.lines[life.line].tokens) : "", kind: "n" }, { text: reasonOf(life) }], now === life && "sel"))),
    recalls.length ? [h("h3", {}, "Recalled by the model"), h("p", {}, recalls.map(([number]) => h("button", { type: "button", onclick: () => goCall(Math.max(0, run.calls.findIndex((one) => one.call === number))) }, `call ${number}`)))] : h("p", { class: "dim" }, "The model never recalled it."),
    shown && shown.parts ? [h("h3", {}, `As call ${call.call} showed it`), partElements(shown.parts, shown.left_out, true)] : null,
    shown && !shown.parts ? h("p", { class: "good" }, `Call ${call.call} showed it whole, as below.`) : null,
    cover ? [h("h3", {}, `In its place, call ${call.call} had this stand-in of messages ${linePlace(cover)}`), partElements(cover.parts, 0, true), summaryBeside(cover)] : null,
    now ? null : h("p", {}, `Call ${call.call} had no part of it.`),
    h("h3", {}, "Original"), partElements(entry.parts, entry.left_out, false),
  ];
}
