// What every page uses: htm bound to preact, the server, the address, and the words for states and times.
// Nothing from the store is ever given to the browser as markup: htm makes text of it, and `seen` shows what would hide.
import { h, render, Fragment } from "./vendor/preact.mjs";
import { useState, useEffect, useRef, useMemo, useId } from "./vendor/hooks.mjs";
import { signal } from "./vendor/signals.mjs";
import htm from "./vendor/htm.mjs";

export const html = htm.bind(h);
export { render, Fragment, useState, useEffect, useRef, useMemo, useId, signal };

// -- the server --

export class Problem extends Error {
  constructor(status, said) {
    super(said.detail || said.title || `the server answered ${status}`);
    this.status = status;
    this.said = said;
  }
}

async function call(method, path, { query, body } = {}) {
  const asked = Object.entries(query || {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const url = asked.length ? `${path}?${new URLSearchParams(asked)}` : path;
  const headers = { Accept: "application/json", "X-Perdure-Console": "1" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), credentials: "same-origin", redirect: "error" });
  } catch {
    link.value = "lost";
    throw new Problem(0, { title: "the server does not answer", hint: "the page continues by itself when it is back" });
  }
  const text = await answer.text();
  const said = text ? parsed(text) : null;
  if (!answer.ok) {
    if (answer.status === 401 && path !== "/enter") signedOut.value = true;
    throw new Problem(answer.status, said || {});
  }
  return said;
}

function parsed(text) {
  try { return JSON.parse(text); } catch { return null; }
}

export const get = (path, query) => call("GET", path, { query });
export const post = (path, body = {}) => call("POST", path, { body });
export const drop = (path) => call("DELETE", path);
export const part = encodeURIComponent;

// -- what is live: one stream of events for the tab, which only says that something changed --

export const link = signal("joining"); // joining, live, lost
export const signedOut = signal(false);
export const pulse = signal(0);
export const me = signal(null);
export const offset = signal(0); // of the store's clock to this one, in milliseconds

let waiting = null;
function changed() {
  waiting ||= setTimeout(() => { waiting = null; pulse.value++; }, 120);
}

export function listen() {
  const source = new EventSource("/v1/console/live");
  source.onopen = () => { const back = link.value === "lost"; link.value = "live"; if (back) pulse.value++; };
  source.addEventListener("changed", changed);
  source.onerror = () => {
    link.value = "lost";
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  };
}

export function useRead(path, query, { live = true } = {}) {
  const [state, set] = useState({});
  const [count, again] = useState(0);
  const key = path && path + JSON.stringify(query || {});
  const beat = live ? pulse.value : 0;
  const last = useRef(null);
  useEffect(() => {
    if (!path) return undefined;
    let dropped = false;
    if (last.current !== key) set({});
    last.current = key;
    get(path, query).then(
      (data) => { if (!dropped) { if (typeof data?.at === "string") offset.value = Date.parse(data.at) - Date.now(); set({ data }); } },
      (problem) => { if (!dropped) set((was) => ({ data: problem.status ? null : was.data, problem })); },
    );
    return () => { dropped = true; };
  }, [key, beat, count]);
  return { ...state, again: () => again((n) => n + 1) };
}

// -- the address --

export const address = signal(location.pathname + location.search);
export function go(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  address.value = location.pathname + location.search;
}
addEventListener("popstate", () => { address.value = location.pathname + location.search; });
addEventListener("click", (event) => {
  const anchor = event.target.closest?.("a[href]");
  if (!anchor || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  if (anchor.origin !== location.origin || anchor.hasAttribute("download") || anchor.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(anchor.pathname + anchor.search);
  scrollTo(0, 0);
});
export const runAt = (id, seq) => `/runs/${part(id)}${seq ? `?at=${seq}` : ""}`;
export const sessionAt = (name, seq) => `/sessions/${part(name)}${seq ? `?at=${seq}` : ""}`;
export const streamAt = (kind, name, seq) => (kind === "run" ? runAt(name, seq) : kind === "session" ? sessionAt(name, seq) : null);

// -- words --

// Characters that would hide, or turn the text around them, are shown by their numbers.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
export function seen(text) {
  return String(text ?? "").replace(HIDDEN, (c) => `⟨${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

const TONES = {
  doubt: "in_doubt doubt abandoned stranded warning suspect silent stale",
  bad: "failed parked error crashed dead removed forgotten",
  wait: "waiting ask approval open planned todo blocked changed",
  live: "running ready dispatched active alive doing undoing live",
  good: "completed committed ok met done added holds worked",
};
export const tone = (state) => Object.keys(TONES).find((each) => TONES[each].split(" ").includes(state)) || "";
export const LABELS = { 1: "errors", in_doubt: "in doubt", what_if: "what-if", failed_approach: "failed approach" };
export function Pill({ state, label }) {
  return html`<span class=${`pill ${tone(state)}`}>${label || LABELS[state] || seen(state)}</span>`;
}

export function lasting(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min${s < 600 && s % 60 ? ` ${s % 60} s` : ""}`;
  if (s < 172800) return `${Math.floor(s / 3600)} h${Math.floor((s % 3600) / 60) ? ` ${Math.floor((s % 3600) / 60)} min` : ""}`;
  return `${Math.floor(s / 86400)} d`;
}
const tick = signal(0);
setInterval(() => { if (document.visibilityState === "visible") tick.value++; }, 1000);
export const storeNow = () => Date.now() + offset.value;
export function Ago({ at }) {
  void tick.value;
  if (!at) return null;
  return html`<time dateTime=${at} title=${at}>${lasting(storeNow() - Date.parse(at))} ago</time>`;
}
export function Until({ at }) {
  void tick.value;
  const left = Date.parse(at) - storeNow();
  return html`<time dateTime=${at} title=${at}>${left > 0 ? `${lasting(left)} left` : "time is over"}</time>`;
}
export const clock = (us) => new Date(us / 1000).toISOString().slice(11, 23);
export const count = (n, noun, plural) => `${n.toLocaleString("en")} ${n === 1 ? noun : plural || `${noun}s`}`;
export const quoted = (word) => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${String(word).replaceAll("'", `'"'"'`)}'`);

// -- parts of pages --

export function Text({ children, class: name }) {
  return html`<bdi class=${name}>${seen(children)}</bdi>`;
}
export const say = (text) => html`<${Text}>${text}<//>`;
// Our own text, with commands between backticks.
export const told = (text) => html`<bdi>${seen(text).split("`").map((part, n) => (n % 2 ? html`<code>${part}</code>` : part))}</bdi>`;
export const ago = (at) => html`<${Ago} at=${at} />`;
export function Command({ text }) {
  return html`<span class="command"><code>${seen(text)}</code></span>`;
}
export function Trouble({ problem }) {
  if (!problem) return null;
  const { hint, path } = problem.said || {};
  return html`<div class="problem" role="alert"><${Text}>${problem.message}<//>${path && html` <code>${seen(path)}</code>`}${hint && html`<div class="hint small">${told(hint)}</div>`}</div>`;
}
export function Page({ title, sub, crumb, aside, problem, children, name }) {
  useEffect(() => { document.title = `${name || title} · Perdure`; }, [title, name]);
  return html`
    ${crumb && html`<p class="crumb">${crumb}</p>`}
    <div class="head"><div><h1 tabindex="-1"><${Text}>${title}<//></h1>${sub && html`<p class="sub">${sub}</p>`}</div>${aside}</div>
    <${Trouble} problem=${problem} />
    ${children}`;
}
export function Loading({ read }) {
  if (read.problem) return html`<${Trouble} problem=${read.problem} />`;
  const rows = read.data?.damaged;
  if (rows?.length) return html`<p class="caution">Damaged: <${Text}>${rows.map((it) => it.where).join(", ")}<//>. ${told("`perdure verify` says what is wrong, and `perdure quarantine` records that it is known.")}</p>`;
  return read.data ? null : html`<p class="empty" role="status">Reading…</p>`;
}
export function Empty({ title, children }) {
  return html`<div class="card empty"><strong>${title}</strong>${children}</div>`;
}
export function Facts({ of }) {
  const shown = Object.entries(of).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return html`<dl class="facts">${shown.map(([name, value]) => html`<${Fragment} key=${name}><dt>${name}</dt><dd>${typeof value === "object" ? value : html`<${Text}>${value}<//>`}</dd><//>`)}</dl>`;
}
export function Section({ title, children, aside }) {
  const id = useId();
  return html`<section aria-labelledby=${id}><h2 id=${id}>${title}</h2>${aside}${children}</section>`;
}
export const Box = ({ title, children }) => html`<${Section} title=${title}><div class="card pad">${children}</div><//>`;
export function Row({ href, state, label, title, about, side }) {
  const shown = html`<span><${Pill} state=${state} label=${label} /></span><span class="what"><span class="title">${title}</span>${about && html`<span class="about">${about}</span>`}</span><span class="side-text">${side}</span>`;
  return html`<li>${href ? html`<a class="row" href=${href}>${shown}</a>` : html`<div class="row">${shown}</div>`}</li>`;
}
export function Slim({ title, of, row }) {
  return of.length > 0 && html`<${Section} title=${title}><ul class="card rows slim">${of.map(row)}</ul><//>`;
}

const JSON_MAX = 20000;
export function Json({ value, label = "value" }) {
  const flat = useMemo(() => JSON.stringify(value) ?? "null", [value]);
  if (flat.length <= 72) return html`<div class="json short" role="group" aria-label=${label}>${coloured(spaced(flat))}</div>`;
  const text = JSON.stringify(value, null, 2);
  const short = text.length > JSON_MAX ? `${text.slice(0, JSON_MAX)}\n… ${count(text.length - JSON_MAX, "character")} more: the command has them` : text;
  return html`<div class="json" tabindex="0" role="group" aria-label=${label}>${coloured(short)}</div>`;
}
const spaced = (flat) => flat.replace(/"(?:[^"\\]|\\.)*"|[:,]/g, (part) => (part.length === 1 ? `${part} ` : part));
const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\b(?:true|false|null)\b/g;
function coloured(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(TOKENS)) {
    if (found.index > from) parts.push(seen(text.slice(from, found.index)));
    const kind = found[2] ? "key" : found[1] ? "text" : /^[-\d]/.test(found[0]) ? "number" : "other";
    parts.push(html`<span class=${kind}>${seen(found[1] || found[0])}</span>`, found[2] || "");
    from = found.index + found[0].length;
  }
  parts.push(seen(text.slice(from)));
  return parts;
}

// A table around its rows. A head that begins with # is of numbers. On a small screen a row is a card, whose cells name their heads.
export function Table({ heads, box = "card", children }) {
  const label = (body) => {
    for (const { cells } of body?.rows || []) heads.forEach((head, n) => { cells[n].dataset.head = /^–?$/.test(cells[n].textContent) ? "" : head.replace("#", ""); });
  };
  return html`<div class=${`${box} table-box`}><table class="table"><thead><tr>${heads.map((head) => html`<th key=${head} scope="col" class=${head[0] === "#" ? "number" : undefined}>${head.replace("#", "")}</th>`)}</tr></thead><tbody ref=${label}>${children}</tbody></table></div>`;
}

// JSON that a person types: its value (nothing typed: undefined) and what is wrong with it.
export function typed(text) {
  try { return [text.trim() ? JSON.parse(text) : undefined, null]; } catch (error) { return [undefined, { message: `This is not JSON: ${error.message}`, said: { hint: 'a text needs quotes: "done"' } }]; }
}
export const show = (value) => (typeof value === "string" ? value : JSON.stringify(value));
export const oops = (error) => error && `${error.code}: ${error.message}`;

// A button that changes something: its command beside it, who it is done as, and what came of it in words.
export function Act({ label, command, run, kind = "", onDone, disabled }) {
  const [state, set] = useState({});
  const id = useId();
  async function press() {
    set({ busy: true });
    try {
      const said = await run();
      set({ done: typeof said === "string" && said });
      pulse.value++;
      onDone?.(said);
    } catch (problem) {
      set({ problem });
      if (problem.status === 409) pulse.value++;
    }
  }
  return html`<div>
    <div class="act"><button type="button" class=${kind} disabled=${disabled || state.busy} aria-describedby=${id} onClick=${press}>${label}</button>
      <span id=${id}><${Command} text=${command} /></span></div>
    <${Trouble} problem=${state.problem} />
    ${state.done && html`<div class="done" role="status">${seen(state.done)}</div>`}
  </div>`;
}
export function As() {
  return html`<p class="as">Recorded as <strong><${Text}>${me.value?.actor || "…"}<//></strong>.</p>`;
}
