// The strip above a run's events: time from left to right with idle gaps shortened. A run that went one way has a lane for each kind
// of thing; one with branches or children has a lane for each of them.
// One drawing for any number of events; the slider below it is what keyboards and screen readers use.
import { html, useEffect, useMemo, useRef, lasting, tone } from "../base.mjs";

const KINDS = ["run", "step", "effect", "wait"];
const BRANCHES_MAX = 12;
const CHILDREN_MAX = 8;
const HIGH = 25;
const IDLE_US = 30e6;
const COLOURS = ["live", "strong", "good", "doubt", "wait", "bad", "line", "ink", "soft"];

// What events of a kind do in the drawing: where and how they are marked, which bars they begin and end.
function drawn(kind) {
  const of = kind.startsWith("effect") ? 2 : /^(ask|run\.wait\.|run\.signal)/.test(kind) ? 3 : kind.startsWith("step") ? 1 : 0;
  return {
    of, colour: /doubt|late/.test(kind) ? "doubt" : /failed|parked|cancel/.test(kind) ? "bad" : ["live", "strong", "good", "wait"][of],
    begins: /^effect\.(dispatched|redispatched)|^(ask|run\.wait)\.opened/.test(kind),
    ends: of === 3 ? "wait" : /^effect\.(committed|failed|doubted|undone)/.test(kind) && (/doubted/.test(kind) ? "doubt" : /failed/.test(kind) ? "bad" : "good"),
    queued: /^run\.(started|woken|released|unparked|retried)/.test(kind), taken: /^run\.(claimed|recovered)/.test(kind),
    left: /^run\.(waiting|released|parked|completed|failed|cancelled|ended)/.test(kind),
  };
}

// Names of lanes, and the lane of each event.
function lanes(story, looks, children) {
  const many = story.branches.length > 1 || children.length > 0;
  const shown = story.branches.slice(0, BRANCHES_MAX);
  const rest = story.branches.length - shown.length;
  const names = many ? ["run", ...shown, ...(rest ? [`${rest} more`] : [])] : KINDS;
  const lane = many ? story.branch.map((branch) => (branch === null ? 0 : 1 + Math.min(branch, BRANCHES_MAX))) : story.kind.map((kind) => looks[kind].of);
  return { many, lane, own: names.length, names: [...names, ...children.slice(0, CHILDREN_MAX).map((child) => `↳ ${child.agent}`)] };
}

// Where each event stands, from 0 to 1. A pause of more than half a minute is drawn as a short fold, however long it was.
function placed(story) {
  const gaps = story.at_us.map((at, n) => (n ? Math.max(0, at - story.at_us[n - 1]) : 0));
  const busy = gaps.reduce((sum, gap) => sum + (gap > IDLE_US ? 0 : gap), 0) || 1e6;
  const xs = [0];
  const folds = [];
  for (let n = 1; n < gaps.length; n++) {
    if (gaps[n] > IDLE_US) folds.push([n, gaps[n] / 1000]);
    xs.push(xs[n - 1] + (gaps[n] > IDLE_US ? busy * 0.12 : gaps[n]) + busy / gaps.length / 4);
  }
  const scale = xs.at(-1) || 1;
  return { at: xs.map((x) => x / scale), folds };
}

// What lasted: attempts of effects, waits, the time in a queue, times in which somebody drove the run, lives of branches and children.
export function laid(story, children) {
  const looks = story.kinds.map(drawn);
  const found = { looks, ...lanes(story, looks, children), ...placed(story) };
  const { lane, at, many } = found;
  const last = story.seq.length - 1;
  const lives = new Map();
  const bars = [];
  const begun = new Map();
  let [driven, queued] = [null, null];
  const bar = (row, from, to, colour) => bars.push([row, at[from], at[to], colour]);
  story.seq.forEach((seq, n) => {
    const look = looks[story.kind[n]];
    const of = story.of[n] ?? seq;
    if (many && lane[n]) lives.set(lane[n], [lives.get(lane[n])?.[0] ?? n, n]);
    if (look.begins) begun.set(of, n);
    else if (look.ends && begun.has(of)) { bar(lane[begun.get(of)], begun.get(of), n, look.ends); begun.delete(of); }
    if (look.taken) { if (queued !== null) bar(0, queued, n, "soft"); driven ??= n; queued = null; }
    else if (look.left && driven !== null) { bar(0, driven, n, "live"); driven = null; }
    if (look.queued) queued = n;
  });
  if (driven !== null) bar(0, driven, last, "live");
  for (const n of begun.values()) bar(lane[n], n, last, looks[story.kind[n]].of === 3 ? "wait" : "doubt");
  for (const [row, [from, to]] of lives) bars.unshift([row, at[from], at[to], "line"]);
  children.slice(0, CHILDREN_MAX).forEach((child, n) => bars.push([found.own + n, spot(story, at, child.created_at), child.ended_at ? spot(story, at, child.ended_at) : 1, tone(child.status) || "strong"]));
  return { ...found, bars };
}

// Where an instant stands between the events around it.
function spot(story, at, instant) {
  const us = Date.parse(instant) * 1000;
  const n = story.at_us.findIndex((each) => each > us);
  if (n <= 0) return n ? 1 : 0;
  return at[n - 1] + (at[n] - at[n - 1]) * (us - story.at_us[n - 1]) / (story.at_us[n] - story.at_us[n - 1]);
}

function paint(canvas, story, layout, chosen) {
  const { at, folds, bars, looks, lane, names } = layout;
  const colour = Object.fromEntries(COLOURS.map((name) => [name, resolved(canvas, name)]));
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  const left = Math.min(width * 0.3, Math.max(52, ...names.map((name) => pen.measureText(name).width + 12)));
  const room = width - left - 8;
  layout.left = left;
  const x = (share) => left + share * room;
  const y = (row) => 10 + row * HIGH;
  names.forEach((name, row) => {
    pen.fillStyle = colour.soft;
    let short = name;
    while (short.length > 2 && pen.measureText(short).width > left - 6) short = `${short.slice(0, -2)}…`;
    pen.fillText(short, 0, y(row) + 4);
    pen.fillStyle = colour.line;
    pen.fillRect(left, y(row), room, 1);
  });
  pen.textAlign = "center";
  for (const [n, lasted] of folds) {
    const middle = (x(at[n]) + x(at[n - 1])) / 2;
    pen.fillStyle = colour.soft;
    if (folds.length < 8) pen.fillText(lasting(lasted), middle, height - 2);
    pen.strokeStyle = colour.strong;
    pen.setLineDash([2, 4]);
    pen.beginPath();
    pen.moveTo(middle, 2);
    pen.lineTo(middle, height - 14);
    pen.stroke();
    pen.setLineDash([]);
  }
  for (const [row, from, to, name] of bars) {
    pen.fillStyle = colour[name];
    pen.globalAlpha = name === "line" ? 1 : 0.35;
    const thick = name === "line" ? 4 : name === "soft" ? 6 : 12;
    pen.fillRect(x(from), y(row) - thick / 2, Math.max(3, x(to) - x(from)), thick);
  }
  pen.globalAlpha = 1;
  const marked = new Set();
  story.kind.forEach((kind, n) => {
    const here = lane[n] * 1e5 + Math.round(x(at[n]));
    if (marked.has(here)) return;
    marked.add(here);
    pen.fillStyle = colour[looks[kind].colour];
    pen.fillRect(x(at[n]) - 1, y(lane[n]) - 6, 2.5, 12);
  });
  pen.fillStyle = colour.ink;
  pen.fillRect(x(at[chosen]) - 0.75, 0, 1.5, height - 14);
}

// A canvas knows no light-dark(): the browser is asked what it comes to here.
function resolved(canvas, name) {
  canvas.style.color = `var(--${name})`;
  const found = getComputedStyle(canvas).color;
  canvas.style.color = "";
  return found;
}

export function Strip({ story, kin, chosen, onChoose }) {
  const canvas = useRef(null);
  const draw = useRef(null);
  const layout = useMemo(() => laid(story, kin), [story, kin]);
  draw.current = () => canvas.current && paint(canvas.current, story, layout, chosen);
  useEffect(() => { draw.current(); }, [layout, chosen]);
  useEffect(() => {
    const again = () => draw.current();
    const watch = new ResizeObserver(again);
    watch.observe(canvas.current);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", again);
    const themed = new MutationObserver(again);
    themed.observe(document.documentElement, { attributes: true });
    return () => { watch.disconnect(); themed.disconnect(); dark.removeEventListener("change", again); };
  }, []);
  function press(event) {
    const box = canvas.current.getBoundingClientRect();
    const wanted = (event.clientX - box.left - layout.left) / (box.width - layout.left - 8);
    let best = 0;
    layout.at.forEach((x, n) => { if (Math.abs(x - wanted) < Math.abs(layout.at[best] - wanted)) best = n; });
    onChoose(best);
  }
  return html`<canvas ref=${canvas} aria-hidden="true" data-lanes=${layout.names.join("|")} style=${{ height: `${layout.names.length * HIGH + 8}px` }} onClick=${press}></canvas>`;
}
