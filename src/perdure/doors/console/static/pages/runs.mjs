// The list of runs, filtered by what the address says.
import { html, useState, useEffect, useRead, get, go, Page, Empty, Loading, Pill, Ago, Text, Trouble, runAt, sessionAt } from "../base.mjs";

const STATES = ["ready", "running", "waiting", "completed", "failed", "cancelled", "parked"];

export function useFilters(path, query) {
  return (name) => (event) => {
    const asked = { ...query, [name]: event.target.value };
    const kept = Object.entries(asked).filter(([, value]) => value !== "");
    go(kept.length ? `${path}?${new URLSearchParams(kept)}` : path, { replace: true });
  };
}

// Further pages after the first; a live update reads the first page alone anew.
export function useMore(path, query, first) {
  const [more, set] = useState({ items: [], next: undefined, problem: null });
  useEffect(() => set({ items: [], next: undefined, problem: null }), [path, JSON.stringify(query)]);
  const next = more.next === undefined ? first?.next : more.next;
  const read = () => get(path, { ...query, after: next }).then(
    (page) => set((was) => ({ items: [...was.items, ...page.items], next: page.next, problem: null })),
    (problem) => set((was) => ({ ...was, problem })),
  );
  const button = next ? html`<div class="more"><button type="button" onClick=${read}>Show more</button></div>` : null;
  return { items: more.items, button: html`<${Trouble} problem=${more.problem} />${button}` };
}

export function Runs({ query }) {
  const asked = { status: query.status, agent: query.agent, session: query.session, since: query.since, errors: query.errors ? "true" : "" };
  const read = useRead("/v1/console/runs", asked);
  const more = useMore("/v1/console/runs", asked, read.data);
  const set = useFilters("/runs", query);
  const items = [...(read.data?.items || []), ...more.items];
  return html`<${Page} title="Runs" sub=${query.errors ? "Those that failed or are parked, the last trouble first." : "The newest first."} problem=${read.problem}>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label>Status<select value=${query.status || ""} onChange=${set("status")}><option value="">any</option>${STATES.map((state) => html`<option key=${state} value=${state}>${state}</option>`)}</select></label>
      <label>Agent<input value=${query.agent || ""} onChange=${set("agent")} /></label>
      <label>Session<input value=${query.session || ""} onChange=${set("session")} /></label>
      <label>Since<input value=${query.since || ""} placeholder="7d, 2h, 2026-01-31" onChange=${set("since")} /></label>
      <label>Only<select value=${query.errors || ""} onChange=${set("errors")}><option value="">all of them</option><option value="1">what went wrong</option></select></label>
    </form>
    <${Loading} read=${read} />
    ${read.data && (items.length ? html`<div class="card table-box"><table class="table">
      <thead><tr><th scope="col">Status</th><th scope="col">Agent</th><th scope="col">Run</th><th scope="col">Key</th><th scope="col">Session</th><th scope="col">Why</th><th scope="col">Started</th></tr></thead>
      <tbody>${items.map((run) => html`<tr key=${run.id}>
        <td><${Pill} state=${run.abandoned ? "abandoned" : run.status} />${run.what_if && html` <${Pill} state="what_if" />`}</td>
        <td><${Text}>${run.agent}<//></td><td><a class="mono" href=${runAt(run.id)}>${run.id.slice(0, 12)}</a></td><td class="wrap"><${Text}>${run.key || ""}<//></td>
        <td>${run.session && html`<a href=${sessionAt(run.session)}><${Text}>${run.session}<//></a>`}</td><td class="long soft"><${Text}>${run.error || run.reason || ""}<//></td><td class="soft"><${Ago} at=${run.created_at} /></td></tr>`)}</tbody>
    </table></div>${more.button}` : html`<${Empty} title="No run matches">Change the filters, or start one: <code>perdure start MODULE:AGENT</code><//>`)}
    ${read.data?.damaged > 0 && html`<p class="caution">${read.data.damaged} rows cannot be read: <code>perdure verify</code> says why.</p>`}
  <//>`;
}
