// The strip above a run's events: time from left to right with idle gaps folded, a lane for each kind of thing.
// One drawing for any number of events; the slider below it is what keyboards and screen readers use.
import { html, useEffect, useMemo, useRef, lasting } from "../base.mjs";

const LANES = ["run", "step", "effect", "wait"];
const IDLE_US = 30e6;
const COLOURS = ["live", "strong", "good", "doubt", "wait", "bad", "line", "ink", "soft"];

const laneOf = (kind) => (kind.startsWith("effect") ? 2 : /^(ask|run\.wait|run\.signal)/.test(kind) ? 3 : kind.startsWith("step") ? 1 : 0);

// Where each event stands, from 0 to 1, and what lasted: attempts of effects, waits, times in which somebody drove the run.
// A pause of more than half a minute is drawn as a short fold, however long it was.
export function laid(story) {
  const gaps = story.at_us.map((at, n) => (n ? Math.max(0, at - story.at_us[n - 1]) : 0));
  const busy = gaps.reduce((sum, gap) => sum + (gap > IDLE_US ? 0 : gap), 0) || 1e6;
  const xs = [0];
  const folds = [];
  for (let n = 1; n < gaps.length; n++) {
    if (gaps[n] > IDLE_US) folds.push([n, gaps[n] / 1000]);
    xs.push(xs[n - 1] + (gaps[n] > IDLE_US ? busy * 0.12 : gaps[n]) + busy / gaps.length / 4);
  }
  const scale = xs.at(-1) || 1;
  const at = xs.map((x) => x / scale);
  const bars = [];
  const begun = new Map();
  let driven = null;
  story.seq.forEach((seq, n) => {
    const kind = story.kinds[story.kind[n]];
    const of = story.of[n] ?? seq;
    if (/^effect\.(dispatched|redispatched)/.test(kind)) begun.set(of, n);
    else if (/^effect\.(committed|failed|doubted|undone)/.test(kind) && begun.has(of)) { bars.push([2, begun.get(of), n, /doubted/.test(kind) ? "doubt" : /failed/.test(kind) ? "bad" : "good"]); begun.delete(of); }
    else if (/^(ask|run\.wait)\.opened/.test(kind)) begun.set(`w${of}`, n);
    else if (/^(ask|run\.wait)\./.test(kind) && begun.has(`w${of}`)) { bars.push([3, begun.get(`w${of}`), n, "wait"]); begun.delete(`w${of}`); }
    if (/^run\.(claimed|recovered)/.test(kind)) driven ??= n;
    else if (/^run\.(waiting|released|parked|completed|failed|cancelled|ended)/.test(kind) && driven !== null) { bars.push([0, driven, n, "live"]); driven = null; }
  });
  if (driven !== null) bars.push([0, driven, story.seq.length - 1, "live"]);
  for (const [key, n] of begun) bars.push(String(key).startsWith("w") ? [3, n, story.seq.length - 1, "wait"] : [2, n, story.seq.length - 1, "doubt"]);
  return { at, folds, bars };
}

function paint(canvas, story, { at, folds, bars }, chosen) {
  const style = getComputedStyle(canvas);
  const colour = Object.fromEntries(COLOURS.map((name) => [name, resolved(canvas, name)]));
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = `11px ${style.fontFamily}`;
  const left = 52;
  const room = width - left - 8;
  const x = (n) => left + at[n] * room;
  const y = (lane) => 10 + lane * 25;
  LANES.forEach((name, lane) => {
    pen.fillStyle = colour.soft;
    pen.fillText(name, 0, y(lane) + 4);
    pen.fillStyle = colour.line;
    pen.fillRect(left, y(lane), room, 1);
  });
  pen.textAlign = "center";
  for (const [n, lasted] of folds) {
    pen.fillStyle = colour.soft;
    if (folds.length < 8) pen.fillText(lasting(lasted), (x(n) + x(n - 1)) / 2, height - 2);
    pen.strokeStyle = colour.strong;
    pen.setLineDash([2, 4]);
    pen.beginPath();
    pen.moveTo((x(n) + x(n - 1)) / 2, 2);
    pen.lineTo((x(n) + x(n - 1)) / 2, height - 14);
    pen.stroke();
    pen.setLineDash([]);
  }
  for (const [lane, from, to, name] of bars) {
    pen.fillStyle = colour[name];
    pen.globalAlpha = 0.35;
    pen.fillRect(x(from), y(lane) - 6, Math.max(3, x(to) - x(from)), 12);
    pen.globalAlpha = 1;
  }
  const drawn = new Set();
  story.kind.forEach((number, n) => {
    const kind = story.kinds[number];
    const lane = laneOf(kind);
    const spot = `${lane}:${Math.round(x(n))}`;
    if (drawn.has(spot)) return;
    drawn.add(spot);
    pen.fillStyle = colour[/doubt|late/.test(kind) ? "doubt" : /failed|parked|cancel/.test(kind) ? "bad" : ["live", "strong", "good", "wait"][lane]];
    pen.fillRect(x(n) - 1, y(lane) - 6, 2.5, 12);
  });
  pen.fillStyle = colour.ink;
  pen.fillRect(x(chosen) - 0.75, 0, 1.5, height - 14);
}

// A canvas knows no light-dark(): the browser is asked what it comes to here.
function resolved(canvas, name) {
  canvas.style.color = `var(--${name})`;
  const found = getComputedStyle(canvas).color;
  canvas.style.color = "";
  return found;
}

export function Strip({ story, chosen, onChoose }) {
  const canvas = useRef(null);
  const layout = useMemo(() => laid(story), [story]);
  useEffect(() => {
    const draw = () => canvas.current && paint(canvas.current, story, layout, chosen);
    draw();
    const watch = new ResizeObserver(draw);
    watch.observe(canvas.current);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    const themed = new MutationObserver(draw);
    themed.observe(document.documentElement, { attributes: true });
    return () => { watch.disconnect(); themed.disconnect(); dark.removeEventListener("change", draw); };
  }, [story, layout, chosen]);
  function press(event) {
    const box = canvas.current.getBoundingClientRect();
    const wanted = (event.clientX - box.left - 52) / (box.width - 60);
    let best = 0;
    layout.at.forEach((x, n) => { if (Math.abs(x - wanted) < Math.abs(layout.at[best] - wanted)) best = n; });
    onChoose(best);
  }
  return html`<canvas ref=${canvas} aria-hidden="true" onClick=${press}></canvas>`;
}
