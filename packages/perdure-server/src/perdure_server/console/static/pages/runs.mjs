// The list of runs, filtered by what the address says.
import { html, useState, useEffect, useRead, get, go, Page, Empty, Loading, Pill, Trouble, Table, LABELS, runAt, sessionAt, say, ago } from "../base.mjs";

const STATES = ["ready", "running", "waiting", "completed", "failed", "cancelled", "parked"];

// A form of filters, which the address carries. A field: its name, its label, and its choices or an example.
export function Filters({ query, fields }) {
  const set = (name) => (event) => {
    const kept = Object.entries({ ...query, [name]: event.target.value }).filter(([, value]) => value !== "");
    go(location.pathname + (kept.length ? `?${new URLSearchParams(kept)}` : ""), { replace: true });
  };
  return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>${fields.map(([name, label, more, first = "any"]) => html`<label key=${name}>${label}${Array.isArray(more)
    ? html`<select value=${query[name] || ""} onChange=${set(name)}><option value="">${first}</option>${more.map((each) => html`<option key=${each} value=${each}>${LABELS[each] || each}</option>`)}</select>`
    : html`<input value=${query[name] || ""} placeholder=${more} onChange=${set(name)} />`}</label>`)}</form>`;
}
export const WRONG = ["errors", "Show", ["1"], "all"];

// The rows of a list, and a button for more of them; a live update reads the first page alone anew.
export function useRows(path, query, names) {
  const asked = Object.fromEntries(names.map((name) => [name, query[name]]));
  const read = useRead(path, asked);
  const [more, set] = useState({ items: [] });
  useEffect(() => set({ items: [] }), [path, JSON.stringify(asked)]);
  const next = more.next === undefined ? read.data?.next : more.next;
  const on = () => get(path, { ...asked, after: next }).then(
    (page) => set((was) => ({ items: [...was.items, ...page.items], next: page.next })),
    (problem) => set((was) => ({ ...was, problem })),
  );
  const button = html`<${Trouble} problem=${more.problem} />${next && html`<div class="more"><button type="button" onClick=${on}>Show more</button></div>`}`;
  return { read, button, items: [...(read.data?.items || []), ...more.items] };
}

export function Runs({ query }) {
  const { read, items, button } = useRows("/v1/console/runs", query, ["status", "agent", "session", "version", "since", "errors"]);
  return html`<${Page} title="Runs" sub=${query.errors ? "Those that failed or are parked, the last trouble first." : "The newest first."}>
    <${Filters} query=${query} fields=${[["status", "Status", STATES], ["agent", "Agent"], ["session", "Session"], ["version", "Version", "model=m1"], ["since", "Since", "7d, 2h, 2026-01-31"], WRONG]} />
    <${Loading} read=${read} />
    ${read.data && (items.length ? html`<${Table} heads=${["Status", "Agent", "Run", "Key", "Session", "Why", "Created"]}>
      ${items.map((run) => html`<tr key=${run.id}>
        <td><${Pill} state=${run.abandoned ? "abandoned" : run.status} />${run.what_if && html` <${Pill} state="what_if" />`}</td>
        <td>${say(run.agent)}</td><td><a class="mono" href=${runAt(run.id)}>${run.id.slice(0, 12)}</a></td><td class="wrap">${say(run.key || "")}</td>
        <td>${run.session && html`<a href=${sessionAt(run.session)}>${say(run.session)}</a>`}</td><td class="long soft">${say(run.error || run.reason || "")}</td><td class="soft">${ago(run.created_at)}</td></tr>`)}<//>${button}` : html`<${Empty} title="No run matches">Change the filters, or start one: <code>perdure start MODULE:AGENT</code><//>`)}
  <//>`;
}
