// Keeps the status page fresh: asks the API every two seconds, counts ages on
// in between, and says so when it cannot. Without it the page is reloaded.
"use strict";
(() => {
  const main = document.getElementById("pipelines");
  const state = document.getElementById("refresh-state");
  let offset = Date.parse(main.dataset.now) - Date.now(); // the server's clock less this one
  let heard = Date.now();

  const time = (t) => t ? new Date(t).toISOString().slice(0, 19).replace("T", " ") + " UTC" : "none yet";
  const num = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const age = (ms) => {
    const sign = ms < 0 ? "−" : "", s = Math.floor(Math.abs(ms) / 1000);
    if (s < 60) return `${sign}${s} s`;
    if (s < 3600) return `${sign}${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 86400) return `${sign}${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
    return `${sign}${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
  };
  const now = () => Date.now() + offset;
  const set = (el, text) => { if (el && el.textContent !== text) el.textContent = text; };

  const tone = (p) => {
    if (p.starting && p.starting.refused) return "bad";
    if (p.paused || p.starting) return "warn";
    if (!p.last_step) return "idle";
    return { failed: "bad", held: "warn", standby: "idle" }[p.last_step.outcome] || "good";
  };
  const outcome = (p) => {
    if (p.starting) return p.starting.refused ? "refused" : "waiting for the " + p.starting.waiting_for;
    return p.last_step ? p.last_step.outcome : "no step yet";
  };
  const why = (p) => {
    if (p.starting) return p.starting.error;
    return p.last_step && !p.paused ? p.last_step.why : ""; // the banner says why it is paused
  };
  const leader = (l) => l && l.live ? `${l.instance}, epoch ${l.epoch}${l.here ? " (this process)" : ""}` : "nobody";

  const row = (r) => {
    const tr = document.createElement("tr");
    tr.dataset.status = r.status;
    const cell = (text, kind) => {
      const td = document.createElement("td");
      td.textContent = text;
      if (kind) td.className = kind;
      tr.append(td);
      return td;
    };
    const moment = (t) => {
      const td = cell(t ? time(t).slice(11, 19) : "–");
      if (!t) return;
      const day = document.createElement("span"); // narrow screens hide it
      day.className = "d";
      day.textContent = time(t).slice(0, 11);
      td.prepend(day);
    };
    moment(r.planned_at); cell(r.reason); cell(r.status); moment(r.watermark);
    for (const n of [r.documents, r.counts.new, r.counts.changed, r.counts.left]) cell(num(n), "n");
    const id = cell(r.id, "id");
    if (r.error) id.title = r.error;
    return tr;
  };

  const baseCut = (f) => f.cut ? `${time(f.cut)}, ${age(now() - Date.parse(f.cut))} old${f.stale_objects ? `, ${num(f.stale_objects)} objects stale` : ""}` : "none yet";
  const rebuildText = (r) => {
    if (r.state === "queued") return `rebuild ${r.id} is queued`;
    return `rebuild ${r.id}: ${r.phase}${r.total ? ` ${num(r.done)} of ${num(r.total)}` : ""}, ${num(r.rows)} rows${r.cancel_requested ? ", called off" : ""}`;
  };
  const gateText = (f) => {
    if (f.held) {
      const why = f.held.checks.filter((c) => !c.passed).map((c) => `${c.name}: ${c.detail || ""}`).join("; ");
      return `Held by the gate: ${f.held.id}. ${why}`;
    }
    if (f.candidate && !f.candidate.approved) return `Candidate ${f.candidate.id} waits to be promoted.`;
    return f.barred.length ? "Barred from promotion: " + f.barred.map((b) => `${b.generation} by ${b.by}: ${b.reason}`).join("; ") : "";
  };
  const full = (card, f, o) => {
    card.querySelector(".full").hidden = !o;
    if (!o) return;
    set(f("base-cut"), baseCut(o));
    set(f("base"), o.generation || "");
    set(f("next"), o.next_rebuild ? time(o.next_rebuild) : "by hand");
    const line = f("rebuild");
    line.hidden = !o.rebuild;
    if (o.rebuild) {
      let bar = line.querySelector("progress"), says = line.querySelector("span");
      if (!bar) {
        bar = document.createElement("progress");
        bar.max = 1;
        bar.setAttribute("aria-label", "rebuild");
        says = document.createElement("span");
        line.replaceChildren(bar, " ", says);
      }
      bar.value = o.rebuild.ratio;
      set(says, rebuildText(o.rebuild));
    }
    f("gate").hidden = gateText(o) === "";
    set(f("gate"), gateText(o));
  };

  const show = (p) => {
    const card = document.getElementById("pipeline-" + p.pipeline);
    if (!card) return false;
    const f = (name) => card.querySelector(`[data-f="${name}"]`);
    card.dataset.tone = tone(p);
    set(f("outcome"), outcome(p));
    set(f("why"), why(p));
    f("age").dataset.at = p.watermark || "";
    set(f("watermark"), time(p.watermark));
    set(f("progress"), time(p.progress));
    set(f("published"), time(p.published_at));
    set(f("leader"), leader(p.leader));
    const figures = {
      documents: p.documents, new: p.counts.new, changed: p.counts.changed, left: p.counts.left,
      gaps: p.gap_partitions, quarantined: p.quarantined_partitions, late: p.late_objects,
    };
    for (const [name, n] of Object.entries(figures)) set(f(name), num(n));
    for (const name of ["gaps", "quarantined", "late"]) f(name).parentElement.classList.toggle("alarm", figures[name] > 0);
    f("paused").hidden = !p.paused;
    set(f("paused"), p.pause ? `Paused by ${p.pause.by} at ${time(p.pause.at)}${p.pause.reason ? ": " + p.pause.reason : ""}` : "");
    f("prefixes").hidden = p.prefixes.length < 2;
    set(f("prefixes"), p.prefixes.length < 2 ? "" : "newest by prefix: " + p.prefixes.map((x) => `${x.prefix} ${time(x.newest)}`).join("; "));
    f("resets").hidden = p.pending_resets.length === 0;
    set(f("resets"), p.pending_resets.map((i) => `${i.pane ? "Rollback" : "Reset to " + time(i.to)} by ${i.actor} is on its way.`).join(" "));
    full(card, f, p.full);
    const body = f("runs");
    const key = p.runs.map((r) => r.id + r.status).join();
    if (p.runs.length > 0 && body.dataset.key !== key) {
      body.replaceChildren(...p.runs.map(row));
      body.dataset.key = key;
    }
    return true;
  };

  const count = () => {
    for (const el of document.querySelectorAll('[data-f="age"]')) {
      set(el, el.dataset.at ? age(now() - Date.parse(el.dataset.at)) : "no data yet");
    }
    const silent = Date.now() - heard > 7000;
    state.classList.toggle("stale", silent);
    if (silent) set(state, `no answer for ${age(Date.now() - heard)}`);
  };

  const refresh = async () => {
    if (!document.hidden) {
      try {
        const answer = await fetch("/api/v1/pipelines", { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(5000) });
        if (!answer.ok) throw new Error(answer.statusText);
        const list = await answer.json();
        offset = Date.parse(list.now) - Date.now();
        heard = Date.now();
        set(state, "live");
        const known = list.pipelines.map(show);
        if (known.includes(false)) location.reload();
      } catch { /* count says how long nothing was heard */ }
    }
    count();
    setTimeout(refresh, 2000);
  };

  document.addEventListener("visibilitychange", () => { if (!document.hidden) heard = Date.now(); });
  setInterval(count, 250);
  count();
  refresh();
})();
