// Settings: rights, limits, retention, tokens, and the colours of this page.
import { html, useState, useRead, post, drop, part, me, signal, Page, Section, Box, Loading, Pill, Until, Facts, Act, As, Command, Table, quoted, ago, say } from "../base.mjs";

// -- colours, which this browser alone knows --

const theme = signal("system");
function paint(chosen) {
  theme.value = ["light", "dark"].includes(chosen) ? chosen : "system";
  if (theme.value === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
}
try { paint(localStorage.getItem("theme")); } catch { /* a browser that keeps nothing */ }
function choose(chosen) {
  paint(chosen);
  try { localStorage.setItem("theme", chosen); } catch { /* it lasts until the tab is closed */ }
}

function Theme() {
  return html`<fieldset class="choice"><legend>Colours</legend>${["system", "light", "dark"].map((each) => html`<label class="check" key=${each}><input type="radio" name="theme" checked=${theme.value === each} onChange=${() => choose(each)} />${each}</label>`)}</fieldset>`;
}

// -- tokens, for admins --

const ROLES = ["viewer", "writer", "operator", "worker", "auditor", "admin"];

function Tokens({ tenant }) {
  const read = useRead("/v1/tokens");
  const [made, set] = useState({ role: "viewer", actor: "", expires: "90d" });
  const field = (name) => ({ value: made[name], onInput: (event) => set({ ...made, [name]: event.target.value }) });
  const { role, actor, expires } = made;
  return html`<${Section} title="Tokens"><${Loading} read=${read} />
    ${read.data?.length > 0 && html`<${Table} heads=${["Token", "Role", "Actor", "Made", "Expires", "Used", "Action"]}>${read.data.map((each) => html`<tr key=${each.id}><td class="mono">${each.id}</td><td>${each.role}</td><td class="wrap">${say(each.actor)}</td><td class="soft">${ago(each.made_at)} by ${say(each.made_by)}</td><td class="soft">${each.expires_at ? html`<${Until} at=${each.expires_at} />` : "never"}</td><td class="soft">${each.used_at ? ago(each.used_at) : "never"}</td>
      <td>${each.id === me.value.token ? html`<${Pill} state="live" label="yours" />` : html`<${Act} kind="harm" label="Revoke" command=${`perdure token revoke ${each.id}`} run=${() => drop(`/v1/tokens/${part(each.id)}`)} />`}</td></tr>`)}<//>`}
    <details class="card pad"><summary>Create a token</summary><div class="acts">
      <label>Role<select ...${field("role")}>${ROLES.map((each) => html`<option key=${each}>${each}</option>`)}</select></label><label>Actor that its events name<input ...${field("actor")} maxlength="200" /></label><label>Expires after (empty: never)<input ...${field("expires")} placeholder="90d" /></label>
      <${Act} kind="main" label="Create" disabled=${!actor} command=${`perdure token create --role ${role} --for ${quoted(actor || "ACTOR")}${expires ? ` --expires ${quoted(expires)}` : ""} --tenant ${quoted(tenant)}`} run=${async () => `${(await post("/v1/tokens", { role, actor, expires: expires || null })).token} is shown this once: keep it where secrets are kept.`} /></div><${As} /></details><//>`;
}

// -- the page --

const LIMITS = { runs: "runs that are not over", bytes: "bytes that are stored", requests: "requests in a second", streams: "event streams at once" };

export function Settings() {
  const read = useRead("/v1/console/settings");
  const [found, who] = [read.data, me.value];
  return html`<${Page} title="Settings" sub="Your rights, and the limits, retention and tokens of your tenant."><${Loading} read=${read} />
    ${found && who && html`<div class="halves">
      <${Box} title="You"><${Facts} of=${{ actor: who.actor, tenant: who.tenant, role: who.role, rights: who.rights.join(", "), token: who.token, expires: who.expires_at ? html`<${Until} at=${who.expires_at} />` : "never" }} /><//>
      <${Box} title="Store"><${Facts} of=${{ address: who.store, epoch: who.epoch, "server runs": `perdure ${who.version}` }} /><${Command} text=${`perdure doctor --store ${quoted(who.store)}`} /><//>
      <${Box} title="Limits">${found.limits ? html`<${Facts} of=${Object.fromEntries(Object.entries(LIMITS).map(([name, label]) => [label, `${found.limits[name]?.toLocaleString("en") ?? "no limit"}${name === "runs" ? ` (now ${found.runs.toLocaleString("en")})` : ""}`]))} />` : html`<p>None: <code>perdure console</code> serves one person. Runs that are not over: ${found.runs.toLocaleString("en")}.</p>`}<${Command} text=${`perdure tenant show --tenant ${quoted(who.tenant)}`} /><//>
      <${Box} title="Retention"><p>The rules are in a file of yours, not in the store. ${found.pruned ? html`They last removed something ${ago(found.pruned.at)}, by ${say(found.pruned.by)}.` : "They have removed nothing yet."} The first command only shows what would be removed.</p><${Command} text="perdure retain --policy retention.toml" /><${Command} text="perdure retain --policy retention.toml --apply" /><//>
      <${Box} title="This browser"><${Theme} /><p class="small soft">Kept in this browser alone.</p><//>
    </div>${who.rights.includes("admin") && (found.keeps_tokens ? html`<${Tokens} tenant=${who.tenant} />` : html`<${Box} title="Tokens"><p>This console has one secret, which ends with it. Tokens are for <code>perdure serve</code>:</p><${Command} text="perdure token list" /><//>`)}`}
  <//>`;
}
