// Memories with their provenance: why we believe this.
import { html, useState, useRead, get, part, Page, Empty, Loading, Pill, Ago, Text, Facts, Trouble, count, sessionAt, seen } from "../base.mjs";
import { useFilters, useMore } from "./runs.mjs";

const KINDS = ["fact", "preference", "workflow", "snippet", "lesson", "failed_approach", "rule", "correction", "vocabulary", "map", "document"];

function Source({ each }) {
  if (!each.stream) return html`<li class="soft">event ${each.seq} of a stream that is not here</li>`;
  const href = each.stream_kind === "session" ? sessionAt(each.stream, each.seq) : each.stream_kind === "run" ? `/runs/${part(each.stream)}?at=${each.seq}` : null;
  const name = html`${each.stream_kind} <${Text}>${each.stream}<//> #${each.seq}`;
  return html`<li>${href ? html`<a href=${href}>${name}</a>` : name} <span class="soft">${each.kind}</span>${each.text && html`<div class="said wrap"><${Text}>${each.text}<//></div>`}</li>`;
}

function Provenance({ memory }) {
  const [state, set] = useState({});
  const read = (event) => event.target.open && !state.data && get("/v1/console/provenance", { scope: memory.scope, scope_kind: memory.scope_kind, seq: memory.seq }).then((data) => set({ data }), (problem) => set({ problem }));
  return html`<details onToggle=${read}><summary class="small">Why we believe this</summary><${Trouble} problem=${state.problem} />
    ${state.data && html`<${Facts} of=${{
      "said in": state.data.sources.length ? html`<ul>${state.data.sources.map((each, n) => html`<${Source} key=${n} each=${each} />`)}</ul>` : null,
      sources: memory.sources.join(", "), checks: memory.checks.length ? html`<ul>${memory.checks.map((each, n) => html`<li key=${n}><code class="wrap">${seen(JSON.stringify(each))}</code></li>`)}</ul>` : "none: nothing says whether it still holds",
      confidence: memory.confidence, valid: memory.valid_from || memory.valid_to ? `${memory.valid_from || "ever"} – ${memory.valid_to || "open"}` : null, confirmed: memory.confirmed_at && html`<${Ago} at=${memory.confirmed_at} />`,
      "used": memory.uses ? count(memory.uses, "time") : null, supersedes: memory.supersedes, "superseded by": memory.superseded_by, note: memory.note, about: memory.about.join(", "),
      command: html`<code>perdure memories --json</code>`,
    }} />`}</details>`;
}

export function Memory({ query }) {
  const asked = { kind: query.kind, status: query.status, about: query.about, q: query.q };
  const read = useRead("/v1/console/memories", asked);
  const more = useMore("/v1/console/memories", asked, read.data);
  const set = useFilters("/memory", query);
  const items = [...(read.data?.items || []), ...more.items];
  return html`<${Page} title="Memory" sub="What outlives a run, where it came from, and whether it still holds." problem=${read.problem}>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}><label>Search<input type="search" value=${query.q || ""} onChange=${set("q")} /></label>
      <label>Kind<select value=${query.kind || ""} onChange=${set("kind")}><option value="">any</option>${KINDS.map((kind) => html`<option key=${kind} value=${kind}>${kind.replace("_", " ")}</option>`)}</select></label>
      <label>Status<select value=${query.status || "live"} onChange=${set("status")}><option value="live">live</option><option value="superseded">superseded</option><option value="forgotten">forgotten</option><option value="all">all</option></select></label>
      <label>About<input value=${query.about || ""} onChange=${set("about")} /></label></form>
    <${Loading} read=${read} />
    ${read.data && (items.length ? items.map((each) => html`<article class="card pad" key=${`${each.scope}${each.seq}`}><div class="card-top"><${Pill} state=${each.kind} />${each.status !== "live" && html`<${Pill} state=${each.status} />`}<span>${each.scope_kind === "session" ? html`<a href=${sessionAt(each.scope, each.seq)}><${Text}>${each.scope}<//></a>` : html`<${Text}>${each.scope}<//>`} #${each.seq}</span><span class="push">by <${Text}>${each.actor}<//>, <${Ago} at=${each.at} /></span></div>
      <p class="question wrap"><${Text}>${each.text}<//></p>${each.why && html`<p class="small soft"><${Text}>${each.why}<//></p>`}<${Provenance} memory=${each} /></article>`) : html`<${Empty} title="No memory matches">Agents write them with <code>session.remember(…)</code>, people with <code>perdure remember</code>.<//>`)}${more.button}
  <//>`;
}
