// The panels below the charts, and the one of the selected message beside them.

const word = (number) => doc.words[number];
const swatch = (kind) => h("u", { class: kind, "aria-hidden": "true" });
const theRun = () => doc.runs[S.run];
const theCall = () => theRun().calls[S.call];
const goCall = (at) => { S.call = at; S.base = null; S.follow = at >= theRun().calls.length - 1; render(); };
const goEntry = (place) => { S.entry = place; S.line = null; render(); };
const goNumber = (number) => goCall(Math.max(0, theRun().calls.findIndex((call) => call.call === number)));
// Levels of several parts are joined by a plus.
const sayLevel = (levels) => levels.split("+").map((level) => say(level)).join("+");
const why = (line) => [word(line.policy), word(line.because)].filter(Boolean).join(": ");

function lineKind(line) {
  if (line.kind === "range") return word(line.level) === "summary" ? "summary" : "covered";
  if (line.first < 0) return line.kind;
  return line.shares.length ? word(line.shares.reduce((a, b) => b[2] > a[2] ? b : a)[0]) : doc.entries[line.first].role;
}

// A message is called by its tool, where it has one: "bash · call" asks for it, "bash · result" answers.
function entryName(place, name) {
  const { role } = doc.entries[place];
  if (name === role) return say(name);
  return role === "tool" ? `${name} · ${say("result")}` : role === "assistant" ? `${name} · ${say("call")}` : name;
}

const lineName = (line) => line.kind === "range" ? say(lineKind(line)) : line.first < 0 ? word(line.name) : entryName(line.first, word(line.name));
const titleOf = (place) => entryName(place, word(doc.entries[place].name));
const linePlace = (line) => line.first < 0 ? "–" : line.kind === "range" && line.last > line.first ? `${line.first + 1}–${line.last + 1}` : `${line.first + 1}`;
const goLine = (number) => () => { const line = theRun().lines[number]; if (line.kind === "entry") { goEntry(line.first); } else { S.line = number; S.entry = null; render(); } };
const isChosen = (number) => { const line = theRun().lines[number]; return line.kind === "entry" ? S.entry === line.first : S.line === number; };
const originalOf = (place) => doc.entries[place].parts.map((part) => doc.texts[part[2]]).join("\n");

const lineHeads = () => [[say("message"), ""], [say("kind"), ""], [say("shown"), ""], [say("tokens"), "n"], [say("saved"), "n saved"], [say("cache"), ""], [say("why"), "because"], [say("as it was sent"), "text"]];

function lineRow(number, cache, kind) {
  const line = theRun().lines[number], saved = line.raw - line.tokens;
  return row(`line ${number}`, goLine(number), [
    { text: linePlace(line) }, { text: lineName(line), mark: swatch(kindClass(lineKind(line))), kind: "name", title: lineName(line) },
    { text: sayLevel(word(line.shown)), mark: swatch(levelClass(word(line.level))), kind: "shown" }, { text: count(line.tokens), kind: "n" }, { text: saved > 0 ? count(saved) : "", kind: "n good saved" },
    { text: cache === "–" ? cache : say(cache), kind: cache === "cache" ? "cached" : "anew" }, { text: why(line), kind: "because", title: why(line) }, { text: flat(textOf(doc, line), 240), kind: "text" },
  ], [isChosen(number) && "sel", kind].filter(Boolean).join(" "));
}

function partElements(parts, leftOut, isStandIn) {
  const level = (part) => word(part[1]) === "full" ? "" : ` · ${sayLevel(word(part[1]))}`;
  return [...parts.flatMap((part) => [h("div", { class: "parttitle" }, word(part[0]) + level(part)), h("pre", { class: isStandIn && word(part[1]) !== "full" ? "standin" : null, tabindex: "0", dir: "auto" }, doc.texts[part[2]] || say("(nothing)"))]), leftOut ? h("p", { class: "dim" }, say("{n} more parts are not in this page.", { n: count(leftOut) })) : null];
}

// Why this call cost what it cost, in one paragraph.
function billText(call) {
  if (!call.sent) return say("No prompt could be sent: the part that must be there is larger than the limit.");
  const { tokens, cached, cost_usd: cost } = call.sent, again = Math.min(call.moved || 0, call.anew), fresh = call.anew - again;
  const money = (n, price) => price === null || price === undefined ? "" : ` (${usd(n * price / 1e6)})`;
  const because = call.is_cold ? say("the provider's cache had forgotten the prompt before") : again ? say("{again} of them because the prefix moved; {fresh} are new or were not cached yet", { again: count(again), fresh: count(fresh) }) : say("they are new or were not cached yet");
  const start = cost === null ? say("Price unknown") : say("{cost} for the input", { cost: usd(cost) });
  const bill = say("{start}: of {tokens} tokens, {cached} tokens came from the cache{read}, {anew} were billed anew{write}: {because}.", { start, tokens: count(tokens), cached: count(cached), read: money(cached, call.price_read), anew: count(call.anew), write: money(call.anew, call.price_write), because });
  return call.is_answered ? `${bill} ${say("The reply of {n} tokens: {cost}.", { n: count(call.output), cost: usd(call.output_usd) })}` : bill;
}

function otherCounts(call) {
  const found = [];
  if (call.reported) found.push(say("The provider counted {n} tokens, {cached} from its cache: {cost}.", { n: count(call.reported.read_tokens + call.reported.written_tokens + call.reported.plain_tokens), cached: count(call.reported.read_tokens), cost: usd(call.reported.usd) }));
  if (call.recorded) found.push(say("As it was recorded: {n} tokens, {cached} from the cache, {cost} with the reply.", { n: count(call.recorded.tokens), cached: count(call.recorded.cached), cost: usd(call.recorded.cost_usd) }));
  found.push(say("The whole history would have been {n} tokens, {cost}", { n: count(call.whole.tokens), cost: usd(call.whole.cost_usd) }) + (call.fits_whole ? say(".") : say("; more than the model takes.")));
  return found.join(" ");
}

const dearer = (move) => move.usd === null || move.usd === undefined ? "" : say(", {cost} more than from the cache", { cost: usd(move.usd) });

function callHead(call) {
  const run = theRun(), foldsHere = run.folds.filter((fold) => fold.call === call.call), prices = [[say("from the cache"), call.price_read], [say("anew"), call.price_write]].filter(([, price]) => price !== null && price !== undefined);
  const about = [call.is_answered ? say("of {n}", { n: run.calls.findLast((one) => one.is_answered).call }) : "", call.model, say("{n} of {limit} tokens", { n: count(call.tokens), limit: count(call.limit) }), prices.length ? say("a million tokens {prices}", { prices: prices.map(([name, price]) => `${name} ${usd(price)}`).join(", ") }) : "", call.time_ms > 1e12 ? new Date(call.time_ms).toLocaleString() : "", call.is_answered ? "" : say("the next one, not answered yet")];
  return [
    h("h2", {}, say("Call {n}", { n: call.call }), h("small", {}, ` ${about.filter(Boolean).join(" · ")}`)),
    ruler(call), h("p", {}, billText(call), " ", h("span", { class: "dim" }, otherCounts(call))),
    (call.moves || []).map((move) => h("div", { class: "note moved" }, h("b", {}, `${say("The prefix moved: {who}.", { who: say(move.who) })} `), `${move.what}. `, move.tokens ? say("{n} tokens from there on are billed anew{dearer}.", { n: count(move.tokens), dearer: dearer(move) }) : "")),
    foldsHere.map((fold) => h("div", { class: "note" }, h("b", { class: "fold" }, `▲ ${say("A fold ({kind}).", { kind: say(fold.kind) })} `), `${fold.reason}. `, say("It made this and later prompts {n} tokens smaller.", { n: count(fold.saved) }), ` ${foldWorth(fold)}`)),
    call.is_compacted ? h("div", { class: "note moved" }, h("b", {}, `◆ ${say("The client compacted here.")} `), say("When the session happened, the client replaced its history by a summary before this call. Foveal keeps all of it.")) : null,
    call.moves?.length || call.is_cold ? null : S.call ? h("div", { class: "note still" }, say("The prefix did not move: this prompt begins with the one before it.")) : null,
  ];
}

function foldWorth(fold) {
  if (fold.net_usd === null || fold.net_usd === undefined) return "";
  const own = fold.cost_usd < 0 ? say("Its own call became {cost} cheaper", { cost: usd(-fold.cost_usd) }) : say("Its own call cost {cost} more", { cost: usd(fold.cost_usd) });
  const even = fold.break_even ? say("it had paid for itself by call {n}", { n: fold.break_even }) : fold.break_even_expected ? say("it will have paid for itself by call {n}", { n: fold.break_even_expected }) : say("it has not paid for itself");
  return say("{own}, the {n} calls since saved {cost}: {even}.", { own, n: fold.calls_since - 1, cost: usd(fold.saved_usd), even });
}

function ruler(call) {
  const bands = [...call.bands[S.by]].filter(([, tokens]) => tokens > 0), classOf = S.by === "kind" ? kindClass : levelClass, order = S.by === "kind" ? KINDS : ["tools", ...LEVELS.slice().reverse()];
  bands.sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]));
  const text = bands.map(([name, tokens]) => `${say(name)} ${count(tokens)}`).join(", ");
  return [h("div", { class: "ruler", role: "img", "aria-label": say("Made of {parts}", { parts: text }) }, bands.map(([name, tokens]) => h("span", { class: classOf(name), flex: tokens, title: `${say(name)}: ${count(tokens)}` })), h("span", { class: "free", flex: Math.max(0, call.limit - call.tokens) })),
    h("div", { class: "cachebar", title: say("from the cache") }, h("span", { width: `${Math.min(100, 100 * (call.sent?.cached || 0) / Math.max(call.limit, call.tokens))}%` })),
    h("div", { class: "made" }, bands.map(([name, tokens]) => h("span", {}, swatch(classOf(name)), `${say(name)} ${count(tokens)}`)))];
}

function promptPanel() {
  const run = theRun(), call = theCall(), numbers = linesOf(run, S.call), cache = cacheStates(run, S.call, numbers), rows = [];
  numbers.forEach((number, i) => {
    rows.push(() => lineRow(number, cache[i]));
    if (S.texts) rows.push(() => h("tr", { class: "whole" }, h("td", { colspan: "8" }, partElements(partsOf(doc, run.lines[number]), run.lines[number].left_out, true))));
  });
  const rest = [["tools", call.tools], ["framing", call.framing], ["not visible here", doc.hidden]].filter(([, tokens], i) => i < 2 || tokens).map(([name, tokens]) => h("tr", {}, h("td", {}), h("td", {}, say(name)), h("td", {}), h("td", { class: "n" }, count(tokens)), h("td", { colspan: "4", class: "because" }, name === "not visible here" ? say("a fixed part of every prompt, by the provider's count: a system prompt and tools that the file does not hold") : "")));
  return [callHead(call), h("p", {}, h("button", { type: "button", "aria-pressed": String(S.texts), "data-key": "texts", onclick: () => { S.texts = !S.texts; render(); } }, S.texts ? say("Hide the texts") : say("Read the whole prompt")), h("span", { class: "dim" }, ` ${say("{n} lines, in the order in which they were sent", { n: count(numbers.length) })}`)), table(lineHeads(), [...rows, ...rest])];
}

function changedPanel() {
  const run = theRun(), at = S.base ?? Math.max(0, S.call - 1), was = linesOf(run, at), now = linesOf(run, S.call), cache = cacheStates(run, S.call, now);
  let same = 0;
  while (same < was.length && same < now.length && was[same] === now[same]) same++;
  const tokens = (numbers) => numbers.reduce((sum, number) => sum + run.lines[number].tokens, 0), key = (number) => { const line = run.lines[number]; return line.kind === "range" ? `range ${line.first}` : line.first < 0 ? `${line.kind} ${line.name}` : line.first; };
  const had = new Set(was), has = new Set(now), places = new Set(was.map(key));
  const gone = was.slice(same).filter((number) => !has.has(number)), come = now.slice(same).map((number, i) => [number, cache[same + i], had.has(number) ? "again" : places.has(key(number)) ? "changed" : "new"]);
  const calls = run.calls.slice(Math.min(at, S.call) + 1, S.call + 1), moves = calls.flatMap((call) => (call.moves || []).map((move) => [call, move])), of = (kind) => count(tokens(come.filter(([, , one]) => one === kind).map(([number]) => number)));
  return [
    h("h2", {}, say("From call {a} to call {b}", { a: run.calls[at].call, b: theCall().call })),
    h("p", {}, say("{same} tokens at the beginning are the same. {gone} are gone or were reshaped, {changed} have another form, {again} are the same behind the change, {fresh} are new.", { same: count(tokens(now.slice(0, same)) + theCall().tools), gone: count(tokens(gone)), changed: of("changed"), again: of("again"), fresh: of("new") })),
    moves.length ? moves.map(([call, move]) => h("div", { class: "note moved" }, h("b", {}, `${say("Call {n}, {who}:", { n: call.call, who: say(move.who) })} `), move.what, move.tokens ? `. ${say("{n} tokens from there on had to be billed anew{dearer}.", { n: count(move.tokens), dearer: dearer(move) })}` : ".")) : h("div", { class: "note still" }, say("Nothing moved: the later prompt begins with all of the earlier one.")),
    h("p", { class: "dim" }, moves.length ? `${say("In all, {n} tokens were billed anew for that: behind the first change everything is, once.", { n: count(calls.reduce((sum, call) => sum + (call.moved || 0), 0)) })} ` : "", say("Shift-click another call in a chart to compare with that one.")),
    table(lineHeads(), [...gone.map((number) => () => lineRow(number, "–", "gone")), ...come.map(([number, state, kind]) => () => lineRow(number, state, kind === "again" ? "" : kind))], { caption: say("Red: gone or reshaped. Pink: another form. Green: new. Plain: the same, behind the change.") }),
  ];
}

function heaviestPanel() {
  const run = theRun(), entries = doc.entries.map((entry, place) => [place, sentOf(run, place)]).filter(([, tokens]) => tokens).sort((a, b) => b[1] - a[1]).slice(0, 100);
  const groups = new Map(), add = (name, kind, tokens, messages) => { const found = groups.get(name) || { kind, tokens: 0, messages: 0 }; found.tokens += tokens; found.messages += messages; groups.set(name, found); };
  doc.entries.forEach((entry, place) => { const name = word(entry.name); add(entry.role === "tool" ? say("{name}: results", { name }) : name === entry.role ? say(name) : say("{name}: calls", { name }), entry.role === "tool" ? "tool result" : name === entry.role ? entry.role : "tool call", sentOf(run, place), 1); });
  run.lines.forEach((line, number) => { if (line.kind !== "entry") add(line.kind === "range" ? say(lineKind(line)) : `${say(line.kind)} ${word(line.name)}`, lineKind(line), line.tokens * run.uses[number], 1); });
  add(say("tools and framing"), "tools", run.calls.reduce((sum, call) => sum + call.tools + call.framing, 0), 1);
  if (doc.hidden) add(say("not visible here"), "other", doc.hidden * run.calls.length, 1);
  const all = [...groups].filter(([, one]) => one.tokens).sort((a, b) => b[1].tokens - a[1].tokens), total = all.reduce((sum, [, one]) => sum + one.tokens, 0);
  return [
    h("h2", {}, say("Heaviest over the whole session")),
    table([[say("tool or kind"), ""], [say("tokens sent"), "n"], [say("share"), "n"], [say("messages"), "n"]], all.slice(0, 40).map(([name, one]) => h("tr", {}, h("td", {}, swatch(kindClass(one.kind)), name), h("td", { class: "n" }, count(one.tokens)), h("td", { class: "n" }, percent(one.tokens, total)), h("td", { class: "n" }, count(one.messages)))), { caption: say("Tokens of all prompts together, by tool and kind") }),
    h("h3", {}, say("Messages")),
    table([[say("message"), ""], [say("kind"), ""], [say("tokens sent"), "n"], [say("its own size"), "n"], [say("calls"), "n"], [say("text"), "text"]], entries.map(([place, tokens]) => () => row(`entry ${place}`, () => goEntry(place), [{ text: `${place + 1}` }, { text: titleOf(place), kind: "name" }, { text: count(tokens), kind: "n" }, { text: count(rawOf(run, place)), kind: "n" }, { text: count(run.lives[place].filter((life) => life.line >= 0).reduce((sum, life) => sum + life.to - life.from + 1, 0)), kind: "n" }, { text: flat(originalOf(place), 200), kind: "text" }], S.entry === place && "sel")), { caption: say("Each message with the tokens that all calls together sent of it") }),
  ];
}

function costPanel() {
  const run = theRun(), total = run.total, movers = new Map();
  for (const call of run.calls) for (const move of call.moves || []) { const found = movers.get(move.who) || [0, 0, 0]; movers.set(move.who, [found[0] + 1, found[1] + move.tokens, found[2] + (move.usd || 0)]); }
  const sums = [[say("tokens sent"), count(total.sent_tokens), count(total.everything_tokens)], [say("of them from the cache"), percent(total.cached_tokens, total.sent_tokens), percent(total.everything_cached_tokens, total.everything_tokens)], [say("input"), usd(total.sent_usd), usd(total.everything_usd)], [say("replies"), usd(total.output_usd), usd(total.output_usd)]];
  if (total.output_usd !== null && total.sent_usd !== null && total.everything_usd !== null) sums.push([say("cost, replies included"), usd(total.sent_usd + total.output_usd), usd(total.everything_usd + total.output_usd)]);
  if (total.reported_calls) sums.push([say("input by the provider's counts, {n} calls", { n: total.reported_calls }), usd(total.reported_usd), ""]);
  const recorded = run.calls.filter((call) => call.recorded && call.recorded.cost_usd !== null);
  if (recorded.length) sums.push([say("as it was recorded, replies included, {n} calls", { n: recorded.length }), usd(recorded.reduce((sum, call) => sum + call.recorded.cost_usd, 0)), ""]);
  const about = [say("All {n} answered calls. Counted by {counter}. Prices are estimates from the price table.", { n: count(total.calls), counter: run.counted }), total.too_large ? say("{n} of the whole histories are larger than the model takes.", { n: count(total.too_large) }) : ""];
  const near = run.next_fold;
  return [
    h("h2", {}, say("Cost")),
    table([["", ""], [say("sent"), "n"], [say("whole history"), "n"]], sums.map((cells) => h("tr", {}, cells.map((cell, i) => h("td", { class: i ? "n" : null }, cell)))), { caption: about.filter(Boolean).join(" "), class: "small" }),
    h("h3", {}, say("Folds")),
    run.folds.length ? table([[say("call"), ""], [say("kind"), ""], [say("tokens fewer"), "n"], [say("billed anew"), "n"], [say("its call"), "n"], [say("saved since"), "n"], [say("in all"), "n"], [say("paid by"), "n"], [say("why"), "why"]], run.folds.map((fold) => () => row(`fold ${fold.call}`, () => { S.tab = "prompt"; goNumber(fold.call); }, [{ text: `${fold.call}` }, say(fold.kind), { text: count(fold.saved), kind: "n" }, { text: count(fold.billed_anew), kind: "n" }, { text: usd(fold.cost_usd), kind: "n" }, { text: usd(fold.saved_usd), kind: "n" }, { text: usd(fold.net_usd), kind: fold.net_usd < 0 ? "n bad" : "n good" }, { text: fold.break_even ? say("call {n}", { n: fold.break_even }) : fold.break_even_expected ? `${say("call {n}", { n: fold.break_even_expected })}?` : "–", kind: "n" }, { text: fold.reason, kind: "why" }])), { caption: say("Every fold: the price of its own call, and the savings of all calls after it") }) : h("p", {}, say("No fold was made.")),
    near ? h("p", { class: "dim" }, say("The next fold: the messages take {messages} of {due} tokens; at {growth} a call, a fold is due in about {n} calls.", { messages: count(near.messages), due: count(near.due), growth: count(near.growth), n: count(near.calls_until_forced) })) : null,
    movers.size ? [h("h3", {}, say("What moved the prefix")), table([[say("by"), ""], [say("times"), "n"], [say("tokens behind it"), "n"], [say("USD more"), "n"]], [...movers].map(([who, [times, tokens, money]]) => h("tr", {}, h("td", {}, say(who)), h("td", { class: "n" }, count(times)), h("td", { class: "n" }, count(tokens)), h("td", { class: "n" }, usd(money)))), { class: "small" })] : null,
    run.notes.length ? [h("h3", {}, say("Notes")), run.notes.map((note) => h("p", { class: "dim" }, note))] : null,
  ];
}

function callsPanel() {
  const run = theRun(), hasRecorded = run.calls.some((call) => call.recorded);
  const heads = [[say("call"), ""], [say("tokens"), "n"], [say("of limit"), "n"], [say("cache"), "n"], [say("anew"), "n"], [say("input"), "n"], [say("whole history"), "n"], ...(hasRecorded ? [[say("recorded"), "n"]] : []), [say("folds"), "n"], [say("prefix moved by"), "why"]];
  const movedBy = (call) => [...(call.is_compacted ? [`◆ ${say("The client compacted here.")}`] : []), ...(call.moves || []).map((move) => say(move.who)), ...(call.is_cold ? [say("cold cache")] : [])].join(", ");
  return [h("h2", {}, say("All calls")), table(heads, run.calls.map((call, at) => () => row(`call ${at}`, () => { S.tab = "prompt"; goCall(at); }, [{ text: `${call.call}` }, { text: count(call.tokens), kind: "n" }, { text: percent(call.tokens, call.limit), kind: "n" }, { text: call.sent ? count(call.sent.cached) : say("not sent"), kind: "n" }, { text: count(call.anew), kind: "n" }, { text: usd(call.sent?.cost_usd), kind: "n" }, { text: count(call.whole.tokens), kind: "n" }, ...(hasRecorded ? [{ text: count(call.recorded?.tokens), kind: "n" }] : []), { text: call.folds ? `${call.folds}` : "", kind: "n" }, { text: movedBy(call), kind: "why" }], at === S.call && "sel")), { caption: say("The figures of the charts") })];
}

function searchPanel() {
  const wanted = S.q.trim().toLowerCase(), hits = [], standIns = new Map();
  if (wanted.length > 1) doc.entries.forEach((entry, place) => { const text = originalOf(place), at = text.toLowerCase().indexOf(wanted); if (at >= 0) hits.push([place, text.slice(Math.max(0, at - 50), at + 200)]); });
  if (wanted.length > 1) theRun().lines.forEach((line, number) => { if (line.kind === "entry") return; const text = textOf(doc, line), at = text.toLowerCase().indexOf(wanted); if (at >= 0) standIns.set(number, text.slice(Math.max(0, at - 50), at + 200)); });
  const stateOf = (place) => { const life = lifeAt(theRun(), S.call, place); return !life ? "not in it" : life.line >= 0 ? word(theRun().lines[life.line].level) : "covered"; };
  return [
    h("h2", {}, S.q ? say("{n} messages hold “{q}”", { n: count(hits.length), q: S.q }) : say("Search everything that was seen")),
    wanted.length > 1 ? null : h("p", { class: "dim" }, say("Write at least two characters into the box at the top (key /).")),
    hits.length ? table([[say("message"), ""], [say("kind"), ""], [say("at call {n}", { n: theCall().call }), ""], [say("text"), "text"]], hits.slice(0, 1000).map(([place, text]) => () => row(`entry ${place}`, () => goEntry(place), [{ text: `${place + 1}` }, { text: titleOf(place), mark: swatch(kindClass(doc.entries[place].role)), kind: "name" }, { text: sayLevel(stateOf(place)), mark: swatch(levelClass(stateOf(place))), kind: "shown" }, { text: flat(text, 260), kind: "text" }], S.entry === place && "sel"))) : null,
    standIns.size ? [h("h3", {}, say("{n} summaries and texts beside the conversation hold it too", { n: count(standIns.size) })), table([[say("messages"), ""], [say("kind"), ""], [say("text"), "text"]], [...standIns].slice(0, 300).map(([number, text]) => () => row(`line ${number}`, goLine(number), [{ text: linePlace(theRun().lines[number]) }, { text: lineName(theRun().lines[number]), kind: "name" }, { text: flat(text, 260), kind: "text" }], isChosen(number) && "sel")))] : null,
  ];
}

function comparePanel() {
  const one = theRun(), other = doc.runs[(S.run + 1) % doc.runs.length], at = Math.min(S.call, other.calls.length - 1), sum = (run, figure) => run.calls.reduce((all, call) => all + (figure(call) || 0), 0);
  const rows = [["tokens sent", (run) => count(run.total.sent_tokens)], ["from the cache", (run) => percent(run.total.cached_tokens, run.total.sent_tokens)], ["billed anew", (run) => count(sum(run, (call) => call.anew))], ["input", (run) => usd(run.total.sent_usd)], ["folds", (run) => count(run.folds.length)], ["calls with a moved prefix", (run) => count(sum(run, (call) => call.moved ? 1 : 0))], ["largest prompt", (run) => count(run.calls.reduce((most, call) => Math.max(most, call.tokens), 0))], ["not sent", (run) => count(run.total.refused)]];
  const stateOf = (run, place) => { const life = lifeAt(run, at, place); return !life ? "absent" : life.line >= 0 ? word(run.lines[life.line].shown) : "covered"; };
  const differing = doc.entries.map((_, place) => [place, stateOf(one, place), stateOf(other, place)]).filter(([, a, b]) => a !== b);
  const canvases = [one, other].map((run) => [run, h("canvas", { role: "img", "aria-label": say("Tokens of each prompt, {name}", { name: run.name }) })]);
  requestAnimationFrame(() => canvases.forEach(([run, canvas]) => { if (canvas.isConnected) drawSizes(canvas, run, S.by, [[at, colours.ink]], 120); }));
  return [
    h("h2", {}, say("{a} and {b}", { a: one.name, b: other.name })),
    table([["", ""], [one.name, "n"], [other.name, "n"]], rows.map(([name, figure]) => h("tr", {}, h("td", {}, say(name)), h("td", { class: "n" }, figure(one)), h("td", { class: "n" }, figure(other)))), { class: "small" }),
    h("div", { class: "two" }, canvases.map(([run, canvas]) => h("div", {}, h("h3", {}, run.name), h("div", {}, canvas)))),
    h("h3", {}, say("At call {n}, {m} messages are shown differently", { n: theCall().call, m: count(differing.length) })),
    table([[say("message"), ""], [say("kind"), ""], [one.name, ""], [other.name, ""], [say("text"), "text"]], differing.map(([place, a, b]) => () => row(`entry ${place}`, () => goEntry(place), [{ text: `${place + 1}` }, { text: titleOf(place), kind: "name" }, { text: sayLevel(a), mark: swatch(levelClass(a)), kind: "shown" }, { text: sayLevel(b), mark: swatch(levelClass(b)), kind: "shown" }, { text: flat(originalOf(place), 200), kind: "text" }], S.entry === place && "sel"))),
  ];
}

function sidePanel() {
  if (S.line !== null && theRun().lines[S.line]) return linePanel(theRun().lines[S.line]);
  if (S.entry === null) return [h("p", { class: "dim" }, say("Choose a message in the table or on the map: its life through all calls, its stand-in and its original are shown here."))];
  return entryPanel(S.entry);
}

function linePanel(line) {
  const isRange = line.kind === "range";
  return [
    h("h2", {}, swatch(kindClass(lineKind(line))), lineName(line), h("small", {}, ` ${isRange ? say("messages {places} · {tokens} tokens in place of {raw}", { places: linePlace(line), tokens: count(line.tokens), raw: count(line.raw) }) : say("{kind} · {tokens} tokens", { kind: say(line.kind), tokens: count(line.tokens) })}`)),
    h("p", { class: "dim" }, why(line)),
    partElements(partsOf(doc, line), line.left_out, true),
    isRange ? [h("h3", {}, say("It stands for {n} messages", { n: count(line.entries) })), table([[say("message"), ""], [say("kind"), ""], [say("text"), "text"]], Array.from({ length: line.last - line.first + 1 }, (_, i) => line.first + i).filter((place) => lifeAt(theRun(), S.call, place)?.line === COVERED).slice(0, 400).map((place) => () => row(`entry ${place}`, () => goEntry(place), [{ text: `${place + 1}` }, { text: titleOf(place), kind: "name" }, { text: flat(originalOf(place), 120), kind: "text" }])))] : null,
  ];
}

// One summary holds the state of all ranges, where pins and requests split the covered messages.
function summaryBeside(cover) {
  const lines = linesOf(theRun(), S.call).map((number) => theRun().lines[number]), summary = lines.find((line) => line.kind === "range" && line !== cover && word(line.level) === "summary");
  return word(cover.level) === "summary" || !summary ? null : [h("h3", {}, say("and this summary, which covers it too")), partElements(summary.parts, 0, true)];
}

function entryPanel(place) {
  const run = theRun(), entry = doc.entries[place], lives = run.lives[place], call = theCall(), now = lifeAt(run, S.call, place), n = run.calls.length;
  const levelOf = (life) => life.line >= 0 ? word(run.lines[life.line].level) : "covered", first = lives[0]?.from ?? n, whole = rawOf(run, place) * (n - first);
  const shown = now && now.line >= 0 ? run.lines[now.line] : null, cover = now && now.line === COVERED ? run.lines[coverAt(run, S.call, place)] : null;
  const recalls = doc.recalls.filter(([, from, to]) => from <= place && place <= to);
  const reasonOf = (life) => { const line = life.line >= 0 ? run.lines[life.line] : run.lines[coverAt(run, life.from, place)]; return line ? why(line) : ""; };
  const callName = (at) => run.calls[at].call;
  const span = (life) => say("{level}: calls {a}–{b}", { level: sayLevel(levelOf(life)), a: callName(life.from), b: callName(life.to) });
  return [
    h("h2", {}, swatch(kindClass(entry.role === "tool" ? "tool result" : entry.role)), titleOf(place), h("small", {}, ` ${say("message {n} of {all} · {tokens} tokens", { n: place + 1, all: doc.entries.length, tokens: count(rawOf(run, place)) })} · ${entry.id.slice(0, 12)}`)),
    lives.length ? h("div", { class: "lifebar" }, first > 0 && h("span", { flex: first }), lives.map((life, i) => h("button", { type: "button", class: levelClass(levelOf(life)), flex: life.to - life.from + 1, "aria-label": span(life), "data-key": `life ${i}`, title: span(life), onclick: () => goCall(life.from) }))) : h("p", {}, say("No call of this session has shown it.")),
    h("p", { class: "dim" }, say("{sent} tokens of it were sent over {n} calls; whole each time it would have been {whole}.", { sent: count(sentOf(run, place)), n: count(n - first), whole: count(whole) })),
    table([[say("calls"), ""], [say("shown"), ""], [say("tokens"), "n"], [say("why"), ""]], lives.map((life, i) => row(`stage ${i}`, () => goCall(life.from), [{ text: life.from === life.to ? `${callName(life.from)}` : `${callName(life.from)}–${callName(life.to)}`, kind: "span" }, { text: sayLevel(life.line >= 0 ? word(run.lines[life.line].shown) : "covered"), mark: swatch(levelClass(levelOf(life))), kind: "shown" }, { text: life.line >= 0 ? count(run.lines[life.line].tokens) : "", kind: "n" }, { text: reasonOf(life) }], now === life && "sel"))),
    recalls.length ? [h("h3", {}, say("Recalled by the model")), h("p", {}, recalls.map(([number]) => h("button", { type: "button", onclick: () => goNumber(number) }, say("call {n}", { n: number }))))] : h("p", { class: "dim" }, say("The model never recalled it.")),
    shown && shown.parts ? [h("h3", {}, say("As call {n} showed it", { n: call.call })), partElements(shown.parts, shown.left_out, true)] : null,
    shown && !shown.parts ? h("p", { class: "good" }, say("Call {n} showed it whole, as below.", { n: call.call })) : null,
    cover ? [h("h3", {}, say("In its place, call {n} had this stand-in of messages {places}", { n: call.call, places: linePlace(cover) })), partElements(cover.parts, 0, true), summaryBeside(cover)] : null,
    now ? null : h("p", {}, say("Call {n} had no part of it.", { n: call.call })),
    h("h3", {}, say("Original")), partElements(entry.parts, entry.left_out, false),
  ];
}
