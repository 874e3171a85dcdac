// The audit trail: verify with progress, the age of the last anchor, and the newest events of everything.
import { html, useState, useEffect, useRef, useRead, get, post, Page, Section, Empty, Loading, Text, Trouble, Command, Table, count, streamAt, seen, say, ago } from "../base.mjs";
import { Filters, useRows } from "./runs.mjs";

function Verify() {
  const [state, set] = useState({ running: false });
  const timer = useRef(null);
  useEffect(() => () => clearTimeout(timer.current), []);
  async function follow() {
    try {
      const found = await get("/v1/console/verify");
      set({ running: !found.report && !found.problem, ...found });
      if (!found.report && !found.problem) timer.current = setTimeout(follow, 250);
    } catch (problem) { set({ running: false, failed: problem }); }
  }
  async function start() {
    set({ running: true, done: 0, total: 0 });
    try { await post("/v1/console/verify"); follow(); } catch (problem) { set({ running: false, failed: problem }); }
  }
  const { report } = state;
  const share = state.total ? state.done / state.total : 0;
  return html`<div class="card pad"><div class="act"><button type="button" class="main" disabled=${state.running} onClick=${start}>Verify</button><${Command} text="perdure verify" /></div>
    <p class="soft">Follows every chain, folds every stream and compares every row and blob with what was written. Changes nothing.</p>
    ${state.running && html`<div class="meter" role="progressbar" aria-label="Verify" aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(share * 100)}><i style=${{ transform: `scaleX(${share})` }}></i></div><p class="small soft" role="status">${(state.done || 0).toLocaleString("en")} of ${(state.total || 0).toLocaleString("en")} events</p>`}
    <${Trouble} problem=${state.failed || (state.problem && { message: state.problem, said: {} })} />
    ${report && (report.problems.length ? html`<div class="problem" role="alert"><strong>${count(report.problems.length + report.left_out, "problem")}.</strong> The first: <${Text}>${`${report.problems[0].kind}: ${report.problems[0].stream} ${report.problems[0].seq ? `event ${report.problems[0].seq} ` : ""}${report.problems[0].message}`}<//></div>
        <ul>${report.problems.slice(0, 50).map((each, n) => html`<li key=${n} class="wrap small"><strong>${each.kind}</strong> <${Text}>${`${each.stream} ${each.seq || ""} ${each.message}`}<//></li>`)}</ul>`
      : html`<p class="done" role="status">Everything is as it was written: ${count(report.counts.events, "event")} in ${count(report.counts.streams, "stream")}, ${count(report.counts.rows, "row")}, ${count(report.counts.blobs, "blob")}.${report.unverifiable.length ? ` ${count(report.unverifiable.length, "body was", "bodies were")} pruned or erased, and can no longer be compared.` : ""}</p>`)}
    ${report && html`<p class="small soft">A cut tail shows only against an anchor that is kept elsewhere: <code>perdure verify --anchor FILE</code></p>`}
  </div>`;
}

export function Audit({ query }) {
  const { read, items, button } = useRows("/v1/console/events", query, ["kind", "actor", "since"]);
  const anchors = useRead("/v1/console/anchors");
  return html`<${Page} title="Audit" sub=${anchors.data && (anchors.data.last ? html`All heads were last anchored ${ago(anchors.data.last)}.` : html`The heads were never anchored: a cut tail would not show. <code>perdure anchor</code>`)} problem=${anchors.problem}>
    <${Verify} />
    <${Section} title="Events"><${Filters} query=${query} fields=${[["kind", "Kind", "effect.*"], ["actor", "Actor"], ["since", "Since", "24h"]]} />
      <${Loading} read=${read} />
      ${read.data && (items.length ? html`<${Table} heads=${["Kind", "Stream", "Actor", "When"]}>
        ${items.map((each) => { const href = streamAt(each.stream_kind, each.session, each.seq); const where = html`${each.stream_kind} ${say(each.session)} #${each.seq}`; return html`<tr key=${`${each.stream_kind}${each.session}${each.seq}`}><td><strong>${seen(each.kind)}</strong></td><td class="long">${href ? html`<a href=${href}>${where}</a>` : where}</td><td>${say(each.actor)}</td><td class="soft">${ago(each.at)}</td></tr>`; })}<//>${button}` : html`<${Empty} title="No event matches">Change the filters.<//>`)}
    <//>
  <//>`;
}
