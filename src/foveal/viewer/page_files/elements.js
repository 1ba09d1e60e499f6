// Elements and numbers. Everything that a session said reaches the page as text, never as markup.

const $ = (id) => document.getElementById(id);

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "flex") element.style.flex = `${value} 0 0`;
    else if (name === "width") element.style.width = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const count = (n) => n === null || n === undefined ? "–" : Math.round(n).toLocaleString("en-US");
const short = (n) => Math.abs(n) >= 1e9 ? `${(n / 1e9).toFixed(2)}G` : Math.abs(n) >= 1e6 ? `${(n / 1e6).toFixed(n >= 1e7 ? 1 : 2)}M` : Math.abs(n) >= 1e4 ? `${Math.round(n / 1e3)}k` : Math.abs(n) >= 1e3 ? `${(n / 1e3).toFixed(1)}k` : `${Math.round(n)}`;
const usd = (n) => n === null || n === undefined ? "–" : `${n < 0 ? "−" : ""}$${Math.abs(n).toFixed(Math.abs(n) < 0.1 ? 4 : 2)}`;
const percent = (part, all) => all ? `${Math.round(100 * part / all)} %` : "–";
const named = (known, word) => known.includes(word) ? word.replace(" ", "-") : "other";
const kindClass = (word) => `k-${named([...KINDS], word)}`;
const levelClass = (word) => `l-${named([...LEVELS, "tools"], word)}`;
const flat = (text, most) => text.slice(0, most * 2).replace(/\s+/g, " ").trim().slice(0, most);

// A table whose first rows are there at once and the others as soon as the browser has time.
function table(heads, rows, options = {}) {
  const body = h("tbody");
  const add = (from, most) => body.append(...rows.slice(from, from + most).map((row) => typeof row === "function" ? row() : row));
  add(0, 60);
  let done = 60;
  const more = () => { if (!body.isConnected) return; add(done, 250); done += 250; if (done < rows.length) setTimeout(more, 0); };
  if (rows.length > done) setTimeout(more, 0);
  return h("table", { class: options.class }, options.caption && h("caption", {}, options.caption), h("thead", {}, h("tr", {}, heads.map(([title, kind, more]) => title === "" ? h("td", {}) : h("th", { class: kind || null, scope: "col", ...more }, title)))), body);
}

// A row that leads somewhere by a click and, for keys, by the button in its first cell.
function row(key, go, cells, kind) {
  const [first, ...others] = cells, button = h("button", { class: "go", type: "button", "data-key": key, onclick: (event) => { event.stopPropagation(); go(); } }, first.text ?? first);
  return h("tr", { "data-go": true, class: kind || null, onclick: go }, h("td", { class: first.kind || null }, first.mark, button), others.map((cell) => cell instanceof Node ? cell : h("td", { class: cell?.kind || null, title: cell?.title || null }, cell?.mark, cell?.text ?? cell)));
}
