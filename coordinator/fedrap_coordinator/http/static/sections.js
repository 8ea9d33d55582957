// Each section from the overview document, whole: nothing is kept between two documents.

import { barChart, gauge, lineChart, timeChart } from "./charts.js";
import { facts, make, put, quiet, room, table } from "./elements.js";
import { ago, bytes, clock, count, epsilon, percent, reason, small, span } from "./words.js";

export function showFigures(o) {
  const latest = o.releases.find((release) => !release.staged);
  const total = o.privacy.rounds.total;
  const entries = [
    ["Release", latest ? `v${latest.version}` : "none", latest ? ago(latest.made_at, o.at) : "the catalogue is empty"],
    ["Rounds", `${count(o.privacy.rounds.released)} of ${count(total)}`, o.over ? "the task is over" : "released"],
    ["Devices", count(o.devices.total), `${count(o.devices.ready)} may take part now`],
    ["Items", count(o.catalogue.items), `${count(o.catalogue.retired)} retired`],
    ["Traffic", bytes(o.traffic.bytes_down), `down, ${bytes(o.traffic.bytes_up)} up since the start`],
  ];
  document.getElementById("figures").replaceChildren(...entries.map(([name, value, note]) =>
    make("div", {}, make("dt", {}, name),
      make("dd", {}, make("div", { class: "value" }, value), make("div", { class: "note" }, note)))));
}

export function showRound(o) {
  const r = o.round;
  if (!r) {
    put("round", quiet(o.over
      ? "Every round of the task was made. Devices keep recommending with the last release."
      : "No round is open now."));
    return;
  }
  const age = Math.max(0, o.at - r.opened_at);
  const wide = Math.max(r.slots, r.max_updates, 1);
  const share = (n) => `${Math.min(100, (100 * n) / wide)}%`;
  const tick = (n, word) => {
    const at = n / wide;
    const mark = make("i", { class: `tick ${at > 0.85 ? "end" : at < 0.1 ? "start" : ""}` }, make("b", {}, word));
    mark.style.left = share(n);
    return mark;
  };
  const ticks = r.min_updates === r.max_updates
    ? [tick(r.max_updates, `${count(r.max_updates)} end it`)]
    : [tick(r.min_updates, `least ${count(r.min_updates)}`), tick(r.max_updates, `most ${count(r.max_updates)}`)];
  const bar = make("div", {
    class: "bar", role: "progressbar", "aria-label": "Updates of this round",
    "aria-valuemin": "0", "aria-valuemax": String(r.max_updates), "aria-valuenow": String(r.accepted),
  }, make("span", { class: "slots", width: share(r.assigned) }),
    make("span", { class: "got", width: share(r.accepted) }), ...ticks);
  const phases = ["collecting", "summing", "released"].map((phase) =>
    make("li", { "aria-current": phase === r.phase ? "step" : null }, phase));
  put("round",
    make("div", { class: "line" },
      make("span", { class: "big" }, `${count(r.accepted)} of ${count(r.max_updates)} updates`),
      make("ol", { class: "phases", "aria-label": "Phase" }, ...phases)),
    bar,
    facts([
      ["Step", `${count(r.step)} of ${count(o.privacy.rounds.total)}, trains release v${r.release}`],
      ["Slots given", `${count(r.assigned)} of ${count(r.slots)}`],
      ["Open for", `${span(age)}${age < r.min_seconds ? `, at least ${span(r.min_seconds)}` : ""}`],
      ["Abandoned after", `${span(r.max_seconds)} with fewer than ${count(r.min_updates)} updates`],
    ]));
}

// How much an epsilon guarantees, in a word, and how it is drawn: only a good one in a calm colour.
const BANDS = [
  { upTo: 1, word: "strong", kind: "" }, { upTo: 4, word: "fair", kind: "" },
  { upTo: 10, word: "weak", kind: "much" }, { upTo: Infinity, word: "hardly any", kind: "all" },
];
const NONE = { word: "none", kind: "all" };
export const band = (value) => (value === null ? NONE : BANDS.find((one) => value <= one.upTo));

// What epsilon means, without a letter: odds, as a reader can check them.
function claim(p) {
  if (p.epsilon === null && p.noise > 0) {
    return "There is no privacy guarantee: steps were made without noise, and those who took part in them have none for good.";
  }
  if (p.epsilon === null) {
    return "Noise is off, so there is no privacy guarantee. Updates are sealed and summed, and the sums are published as they are.";
  }
  const odds = Math.exp(p.epsilon);
  const times = odds < 1e6 ? count(Number(odds.toPrecision(2))) : `10^${Math.round(Math.log10(odds))}`;
  return `Whoever sees every release can tell whether one device's history was part of it only with odds that ` +
    `grow at most ${times} times (but for a chance of ${small(p.delta)}), also when the device takes part as often as it may.`;
}

export function showPrivacy(o) {
  const p = o.privacy;
  const used = p.spent.most / p.cap;
  const bounded = p.epsilon !== null;
  const days = p.window_days ? `${count(p.window_days)} days` : null;
  // K renews with each window: what the device charged most has spent adds up over all of them.
  const last = days === null ? null : p.lifetime[p.lifetime.length - 1];
  put("privacy",
    days !== null && bounded ? gauge({
      share: p.spent.epsilon === null ? 1 : p.spent.epsilon / last.epsilon,
      word: `ε ${epsilon(p.epsilon)}`,
      note: `in any ${days}`,
      title: `Privacy budget: epsilon ${epsilon(p.epsilon)} in any ${days}, a guarantee that is ${band(p.epsilon).word}; ` +
        `the device charged most has spent ${p.spent.epsilon === null ? "all" : epsilon(p.spent.epsilon)} so far`,
      kind: band(p.epsilon).kind,
    }) : gauge({
      share: bounded ? p.spent.epsilon / p.epsilon : used,
      word: bounded ? `ε ${epsilon(p.spent.epsilon)}` : "no ε",
      note: bounded ? `spent of ${epsilon(p.epsilon)} guaranteed` : "no guarantee",
      title: bounded
        ? `Privacy budget: the device charged most has spent epsilon ${epsilon(p.spent.epsilon)} of ${epsilon(p.epsilon)}, a guarantee that is ${band(p.epsilon).word}`
        : "No privacy guarantee",
      kind: band(p.epsilon).kind,
    }),
    make("p", {}, claim(p)),
    facts([
      ["Guarantee", `${band(p.epsilon).word}${bounded ? ` (ε ${epsilon(p.epsilon)}; up to 1 strong, 4 fair, 10 weak)` : ""}`],
      ["A device joins", `at most ${count(p.cap)} rounds${days === null ? "" : ` in any ${days}`}, one in ${count(p.separation)}`],
      ["Charged most", days === null ? `${count(p.spent.most)} of ${count(p.cap)} rounds` :
        `${count(p.spent.most)} rounds so far${bounded ? `, ε ${p.spent.epsilon === null ? "without bound" : epsilon(p.spent.epsilon)}` : ""}`],
      ...(days === null || !bounded ? [] : [["Over years", p.lifetime.map((one) => `${count(one.windows)} × ${days}: ε ${epsilon(one.epsilon)}`).join(", ")]]),
      ["Devices at the end of it", count(o.devices.spent)],
      ["Noise z, clip S", `${p.noise}, ${Number(p.clip.toPrecision(4))}${p.clip_adapts ? " (adapts)" : ""}`],
      ["δ", small(p.delta)],
    ]));
}

// Which round is looked into, by step and moment, and which releases are compared: the only things
// that are kept between two documents.
let lookedInto = null;
let comparing = [null, null];
export const chosenRound = () => lookedInto;
export const compared = () => comparing;
const nameOf = (r) => `${r.step} ${r.opened_at}`;

function roundDetail(r, o, redraw) {
  const refused = Object.entries(r.refused).sort((a, b) => b[1] - a[1]);
  const ended = r.summed_at ?? r.closed_at;
  const close = make("button", { type: "button", class: "plain" }, "Close");
  close.addEventListener("click", () => { lookedInto = null; redraw(); });
  return make("div", { class: "detail", id: "detail", role: "region", "aria-label": `Round of step ${r.step}` },
    make("div", { class: "line" }, make("h3", {}, `Round of step ${count(r.step)}, ${r.phase}`), close),
    facts([
      ["Opened", clock(r.opened_at)],
      ["Collecting", ended === null ? `${span(o.at - r.opened_at)} so far` : span(ended - r.opened_at)],
      ["Summing, learning, publishing", r.summed_at && r.closed_at ? span(r.closed_at - r.summed_at) : "–"],
      ["Slots, and updates that came", `${count(r.charged)}, ${count(r.updates)}`],
      ["Received", r.body_bytes ? `${bytes(r.body_bytes)}, ${bytes(r.body_bytes / Math.max(1, r.updates))} an update` : "–"],
      ["Rule", r.noise === null ? "of an older version" : `noise ${r.noise}, clip ${Number(r.clip.toPrecision(4))}, b ${r.separation}, K ${r.cap}`],
    ]),
    make("h3", {}, "Refused while it was open"),
    refused.length
      ? make("ul", { class: "reasons" }, ...refused.map(([code, n]) =>
        make("li", { title: code }, make("span", {}, reason(code)), make("span", {}, count(n)))))
      : quiet("Nothing."));
}

export function showHistory(o, redraw) {
  if (!o.rounds.length) { put("history", quiet("No round was opened yet.")); return; }
  const oldest = [...o.rounds].reverse();
  const bars = oldest.slice(-60).map((r) => ({
    at: r.opened_at, until: r.closed_at ?? Math.max(o.at, r.opened_at + 1), value: r.updates,
    kind: r.phase === "abandoned" ? "abandoned" : r.phase === "released" ? "" : "open",
    title: `step ${r.step}: ${r.updates} updates, ${r.phase}`,
  }));
  const refused = (r) => Object.values(r.refused).reduce((a, b) => a + b, 0);
  const rows = o.rounds.map((r) => {
    const open = make("button", { type: "button", class: "plain step", "aria-label": `Look into step ${r.step}`,
      "aria-expanded": String(lookedInto === nameOf(r)) }, count(r.step));
    open.addEventListener("click", () => { lookedInto = lookedInto === nameOf(r) ? null : nameOf(r); redraw(); });
    return { cells: [
      open, make("span", { class: `tag ${r.phase}` }, r.phase), clock(r.opened_at),
      span(r.closed_at === null ? null : r.closed_at - r.opened_at), count(r.charged), count(r.updates),
      r.charged ? percent(Math.max(0, 1 - r.updates / r.charged)) : "–", count(refused(r)),
    ] };
  });
  const chosen = o.rounds.find((r) => nameOf(r) === lookedInto);
  put("history",
    make("h3", {}, "Updates in each round, by time"),
    timeChart({ bars, title: "Updates in each round, by time", show: (n) => count(n), width: room("history") }),
    make("div", { class: "scroll", role: "region", "aria-label": "Rounds", tabindex: "0" },
      table("Rounds, the newest first", [
        { name: "Step", number: true }, { name: "Phase" }, { name: "Opened" }, { name: "Took", number: true },
        { name: "Slots", number: true }, { name: "Updates", number: true },
        { name: "Dropped out", number: true }, { name: "Refused", number: true },
      ], rows)),
    chosen ? roundDetail(chosen, o, redraw) : null);
}

// Two versions of C beside each other, and what was measured of both.
function comparison(o, redraw) {
  if (o.releases.length < 2) return null;
  const known = (version) => o.releases.find((r) => r.version === version);
  const [old, young] = [known(comparing[0]) ?? o.releases[1], known(comparing[1]) ?? o.releases[0]];
  const choose = (which, chosen, label) => {
    const box = make("select", { "aria-label": label }, ...o.releases.map((r) => {
      const option = make("option", { value: String(r.version) }, `v${r.version}`);
      if (r.version === chosen.version) option.setAttribute("selected", "");
      return option;
    }));
    box.addEventListener("change", () => { comparing = [old.version, young.version]; comparing[which] = Number(box.value); redraw(); });
    return box;
  };
  const change = (a, b, show) => (a === b ? "same" : `${b > a ? "+" : "−"}${show(Math.abs(b - a))}`);
  const rows = [
    ["Step", old.step, young.step, count], ["Updates", old.devices, young.devices, count],
    ["Items", old.items, young.items, count], ["Zeros", old.zeros, young.zeros, percent],
    ["Whole", old.whole_bytes, young.whole_bytes, bytes],
  ];
  for (const metric of new Set(o.quality.map((q) => q.metric))) {
    const of = (r) => o.quality.find((q) => q.metric === metric && q.version === r.version)?.value;
    if (of(old) !== undefined && of(young) !== undefined) rows.push([metric, of(old), of(young), (n) => n.toFixed(4)]);
  }
  return make("div", { class: "compare", id: "compare" },
    make("div", { class: "line" }, make("h3", {}, "Compare"), choose(0, old, "Earlier version"), make("span", { class: "quiet" }, "with"), choose(1, young, "Later version")),
    make("div", { class: "scroll", role: "region", "aria-label": "Two versions compared", tabindex: "0" },
      table("Two versions compared", [{ name: "" }, { name: `v${old.version}`, number: true }, { name: `v${young.version}`, number: true }, { name: "Change", number: true }],
        rows.map(([name, a, b, show]) => ({ cells: [name, show(a), show(b), change(a, b, show)] })))));
}

export function showRefusals(o) {
  const sums = new Map();
  for (const r of o.rounds) {
    for (const [code, n] of Object.entries(r.refused)) sums.set(code, (sums.get(code) ?? 0) + n);
  }
  if (!sums.size) {
    put("refusals", quiet(`Nothing was refused in the last ${count(o.rounds.length)} rounds.`));
    return;
  }
  const sorted = [...sums].sort((a, b) => b[1] - a[1]);
  const most = sorted[0][1];
  put("refusals",
    make("ul", { class: "reasons" }, ...sorted.slice(0, 9).map(([code, n]) =>
      make("li", { title: code }, make("span", {}, reason(code)), make("span", {}, count(n)),
        make("div", { class: "track" }, make("span", { width: `${(100 * n) / most}%` }))))),
    quiet(`In the last ${count(o.rounds.length)} rounds. Each was told when to come back.`));
}

export function showCommon(o, redraw) {
  const latest = o.releases.find((release) => !release.staged);
  if (!latest) { put("common", quiet("There is no release yet: the catalogue is empty.")); return; }
  const oldest = [...o.releases].reverse();
  const point = (value, show) => (r) => ({ at: r.version, value: value(r), title: `v${r.version}: ${show(value(r))}` });
  const deltas = oldest.filter((r) => r.delta_bytes !== null);
  const full = room("common"), width = full < 560 ? full : (full - 24) / 2;
  const charts = [make("div", {}, make("h3", {}, "Zeros in C"), lineChart({
    points: oldest.map(point((r) => r.zeros, percent)), show: percent, top: 1, width, title: "Share of zeros in C by version",
  }))];
  if (deltas.length) {
    charts.push(make("div", {}, make("h3", {}, "Bytes a device fetches for the next version"), lineChart({
      points: deltas.map(point((r) => r.delta_bytes, bytes)), show: bytes, kind: "second", width,
      title: "Bytes that bring a device from one version to the next",
    })));
  }
  const rows = o.releases.map((r) => ({ cells: [
    `v${r.version}`, count(r.step), r.restores ? `v${r.restores} again` : r.step ? count(r.devices) : "start",
    r.made_at ? clock(r.made_at) : "–", count(r.items), percent(r.zeros), bytes(r.whole_bytes), bytes(r.delta_bytes),
    r.staged ? "staged" : r.kept ? "kept" : "dropped",
  ] }));
  put("common",
    make("div", { class: "line" },
      make("span", { class: "big" }, `${count(latest.items)} × ${o.dim}`),
      make("span", { class: "quiet" }, `${percent(latest.zeros)} zeros · ${bytes(latest.whole_bytes)} whole, ` +
        `${bytes(latest.delta_bytes)} from the version before, compressed`)),
    make("div", { class: "pair" }, ...charts),
    make("div", { class: "scroll", role: "region", "aria-label": "Versions of C", tabindex: "0" },
      table("Versions of C, the newest first", [
        { name: "Version" }, { name: "Step", number: true }, { name: "Updates", number: true }, { name: "Made" },
        { name: "Items", number: true }, { name: "Zeros", number: true }, { name: "Whole", number: true },
        { name: "Delta", number: true }, { name: "Body" },
      ], rows)),
    comparison(o, redraw));
}

const interval = (f) => `${f.value.toFixed(3)} (${f.low.toFixed(3)} to ${f.high.toFixed(3)})`;

// What devices said of releases, the newest answer last: [{release, metric, mean, uplift}].
function answered(o) {
  return o.questions.filter((q) => !q.variants.length && q.share === null).flatMap((q) => q.results
    .filter((r) => r.group === "all" && r.mean)
    .map((r) => ({ release: r.release, metric: q.metric, mean: r.mean, below: r.compared, devices: r.devices })))
    .reverse();
}

function answers(o) {
  const found = answered(o), open = o.questions.filter((q) => q.state === "open" && q.share === null);
  const words = open.map((q) => quiet(`Asked: ${q.about_lists ? "what lists consist of" : q.metric}, ${q.answers} answers so far; nothing is shown before the end.`));
  if (!found.length) return words;
  const last = found.at(-1), same = found.filter((q) => q.metric === last.metric).sort((a, b) => a.release - b.release);
  const uplift = last.below.map((f) => interval({ value: -f.value, low: -f.high, high: -f.low }));
  return [make("div", {},
    make("div", { class: "line" }, make("span", { class: "big" }, last.mean.value.toFixed(3)),
      make("span", { class: "quiet" }, `${last.metric} at v${last.release}, as ${Math.round(last.devices)} devices said`)),
    quiet(`95 % interval ${interval(last.mean)}; above the popular list by ${uplift[0]}` +
      (uplift[1] ? `, above what is popular lately by ${uplift[1]}` : "")),
    ...groups(o),
    lineChart({
      points: same.map((q) => ({
        at: q.release, value: q.mean.value, low: q.mean.low, high: q.mean.high, title: `v${q.release}: ${interval(q.mean)}`,
      })),
      show: (n) => n.toFixed(2), title: `${last.metric} by version, as devices said`, width: room("quality"),
    })), ...words];
}

// Light and heavy users apart, of the newest question that asked for them.
function groups(o) {
  const asked = o.questions.find((q) => q.results.some((r) => r.group === "light"));
  if (!asked) return [];
  return asked.results.filter((r) => r.group === "light" || r.group === "heavy").map((r) =>
    quiet(`${r.group} users at v${r.release}: ${r.mean ? interval(r.mean) : "too few to be shown"}`));
}

function listFigures(o) {
  const asked = o.questions.find((q) => q.lists);
  if (!asked) return [];
  const { popular, items, release } = asked.lists;
  return [quiet(`Lists at v${release}: ${interval(popular)} of them are popular items; as varied as ` +
    `${count(Math.round(items.value))} (${count(Math.round(items.low))} to ${count(Math.round(items.high))}) items, all as frequent.`)];
}

function rollOuts(o) {
  return o.rollouts.map((r) => make("div", {},
    make("div", { class: "line" }, make("span", { class: "big" }, r.state),
      make("span", { class: "quiet" }, r.version === null ? `roll-out of ${r.source}` : `roll-out of v${r.version} beside v${r.base}`)),
    r.reason ? quiet(r.reason) : null,
    ...r.stages.map((s) => quiet(`${percent(s.share)} of devices: ${s.state}, ${count(s.answers)} answers` +
      (s.lead ? `, lead ${interval(s.lead)} of ${Math.round(s.devices)} devices` : "")))));
}

export function showQuality(o) {
  const asked = [...rollOuts(o), ...answers(o), ...listFigures(o)];
  if (!o.quality.length && !asked.length) {
    put("quality", quiet("Not known yet. Ask devices with ",
      make("code", {}, "fedrap-coordinator quality ask"), ", or note what you measured elsewhere with ",
      make("code", {}, "fedrap-coordinator quality add VERSION METRIC VALUE"), "."));
    return;
  }
  const metrics = [...new Set(o.quality.map((q) => q.metric))];
  put("quality", ...asked, ...metrics.slice(0, 3).map((metric) => {
    const found = o.quality.filter((q) => q.metric === metric).sort((a, b) => a.version - b.version);
    const last = found.at(-1);
    return make("div", {},
      make("div", { class: "line" }, make("span", { class: "big" }, last.value.toFixed(3)),
        make("span", { class: "quiet" }, `${metric} at v${last.version}${last.note ? `, ${last.note}` : ""}`)),
      lineChart({
        points: found.map((q) => ({ at: q.version, value: q.value, title: `v${q.version}: ${q.value.toFixed(4)}` })),
        show: (n) => n.toFixed(2), title: `${metric} by version`, width: room("quality"),
      }));
  }));
}

const STATES = [
  ["ready", "may take part now"], ["resting", "resting, took part recently"], ["waiting", "waiting, key is new"],
  ["spent", "spent, has taken part K times"], ["expired", "certificate is over"], ["revoked", "revoked"],
];

export function showDevices(o) {
  const d = o.devices;
  if (!d.total) { put("devices", quiet("No device is enrolled yet. ", make("code", {}, "fedrap-coordinator tokens 100"), " makes tokens for them.")); return; }
  const bar = make("div", { class: "stack", "aria-hidden": "true" }, ...STATES.map(([name], kind) =>
    d[name] ? make("span", { class: `k${kind}`, width: `${(100 * d[name]) / d.total}%` }) : null));
  const charges = Object.entries(o.privacy.spent.devices).map(([times, n]) => ({
    label: times, value: n, title: `${n} devices were charged ${times} times`,
  }));
  put("devices", bar,
    make("ul", { class: "legend" }, ...STATES.map(([name, words], kind) => make("li", {},
      make("i", { class: `k${kind}` }), make("span", {}, words), make("span", {}, count(d[name])),
      make("span", { class: "quiet" }, percent(d[name] / d.total))))),
    make("h3", {}, "Devices by rounds they were charged for"),
    barChart({ bars: charges, title: "Devices by rounds charged", show: (n) => count(n), width: room("devices"), height: 120 }),
    quiet(`${count(d.tokens)} enrolment tokens are unused.`));
}

export function showCatalogue(o) {
  const c = o.catalogue;
  put("catalogue",
    make("div", { class: "line" }, make("span", { class: "big" }, count(c.items)),
      make("span", { class: "quiet" }, `items, ${count(c.retired)} retired · catalogue version ${count(c.version)}`)),
    c.categories.length ? make("div", { class: "chips" }, ...c.categories.map(([name, n]) =>
      make("span", { class: "tag" }, `${name} ${count(n)}`))) : null);
}

export function itemTable(items) {
  return table("Items by row", [{ name: "Row", number: true }, { name: "Item" }, { name: "Attributes", long: true }, { name: "State" }],
    items.map((item) => ({
      kind: item.retired ? "gone" : null,
      cells: [count(item.row), item.item,
        Object.entries(item.attributes).map(([k, v]) => `${k}: ${v}`).join(" · "), item.retired ? "retired" : "shown"],
    })));
}
