// Sign in, listen, draw. The page only reads: whatever changes something is a command.

import * as sections from "./sections.js";
import { quiet, spoken } from "./elements.js";
import { span } from "./words.js";

const ITEMS = 100;
const at = (id) => document.getElementById(id);
let events = null;
let shown = [];
let catalogue = null;
let latest = null;

async function ask(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  if (answer.status === 401) { showDoor(); throw new Error("signed out"); }
  if (!answer.ok) throw new Error((await answer.json()).detail ?? `status ${answer.status}`);
  return answer.json();
}

// How old what is shown is, in seconds: what the coordinator says, and what has passed here since.
const OLD = 5;
let received = 0; // by performance.now(), in milliseconds
let silent = false; // nothing comes at all
const age = () => (latest ? latest.now - latest.at + (performance.now() - received) / 1000 : 0);

function showState() {
  if (!latest || at("board").hidden) return;
  const { state, words, help } = latest.health;
  const old = age();
  const quiet = (performance.now() - received) / 1000 > OLD;
  let [bold, more, kind] = [words, help, state];
  if (quiet || (silent && old > OLD)) {
    [bold, more, kind] = ["The coordinator does not answer.", "This page tries again by itself.", "unreachable"];
  }
  if (old > OLD) more = `${more} What you see is ${span(old)} old.`;
  if (kind === "live" && old <= OLD) live("on", "live");
  else if (old > OLD) live("off", `${span(old)} old`);
  else live("note", kind.replaceAll("-", " "));
  const notice = at("notice");
  notice.hidden = !bold && old <= OLD;
  notice.className = `notice ${kind}`;
  document.body.dataset.state = kind === "live" && old > OLD ? "old" : kind;
  if (at("notice-words").textContent !== bold) at("notice-words").textContent = bold;
  if (at("notice-help").dataset.said !== more) {
    at("notice-help").dataset.said = more;
    at("notice-help").replaceChildren(...spoken(more.trim()));
  }
}
setInterval(showState, 1000);

function live(kind, word) {
  at("live").className = `live ${kind}`;
  at("live-word").textContent = word;
}

function showDoor() {
  events?.close();
  events = null;
  at("door").hidden = false;
  for (const id of ["board", "who", "sections", "tasks"]) at(id).hidden = true;
  at("token").focus();
}

function draw(overview) {
  sections.showFigures(overview);
  sections.showRound(overview);
  sections.showPrivacy(overview);
  // What takes focus or a scroll position is drawn anew only when it has changed.
  keep("history", [overview.rounds, sections.chosenRound()], () => { sections.showHistory(overview, () => draw(latest)); sections.showRefusals(overview); });
  keep("common", [overview.releases, overview.quality, sections.compared()], () => sections.showCommon(overview, () => draw(latest)));
  keep("quality", [overview.quality, overview.questions, overview.rollouts], () => sections.showQuality(overview));
  keep("devices", [overview.devices, overview.privacy.spent], () => sections.showDevices(overview));
  keep("catalogue", overview.catalogue, () => { sections.showCatalogue(overview); });
  if (catalogue !== overview.catalogue.version) { catalogue = overview.catalogue.version; findItems(); }
  markWide();
  at("foot").textContent =
    `Task ${overview.task.slice(0, 8)} · method ${overview.method} · fedrap ${overview.program}`;
}

// Only a table that is wider than its card says so.
function markWide() {
  for (const box of document.querySelectorAll(".scroll")) box.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
}
addEventListener("resize", markWide);

const drawn = new Map();
function keep(name, value, show) {
  const text = JSON.stringify(value);
  if (drawn.get(name) === text) return;
  drawn.set(name, text);
  const tables = [...document.querySelectorAll(`#${name} .body .scroll`)].map((box) => box.scrollTop);
  show();
  document.querySelectorAll(`#${name} .body .scroll`).forEach((box, index) => { box.scrollTop = tables[index] ?? 0; });
}

function listen() {
  events = new EventSource("events");
  events.onmessage = (message) => {
    silent = false;
    latest = JSON.parse(message.data);
    received = performance.now();
    draw(latest);
    showState();
    document.body.dataset.drawn = "yes";
  };
  events.onerror = () => {
    silent = true;
    showState();
    // A session that is over answers 401, which an EventSource does not tell; it gives up by itself
    // when the answer is something else than a stream.
    if (events?.readyState === EventSource.CLOSED) setTimeout(again, 2000);
  };
}

// As long as nobody signed out: 401 leads to the door, and everything else is tried again.
function again() {
  if (events) ask("session").then(listen, () => { if (events) setTimeout(again, 2000); });
}

async function findItems(more = false) {
  const search = encodeURIComponent(at("search").value.trim());
  const after = more && shown.length ? shown.at(-1).row + 1 : 0;
  const found = await ask(`admin/v1/items?start=${after}&limit=${ITEMS}&search=${search}`);
  shown = more ? [...shown, ...found.items] : found.items;
  at("items").replaceChildren(shown.length ? sections.itemTable(shown) : quiet("No item is like that."));
  at("more").hidden = found.items.length < ITEMS;
  markWide();
}

// The other tasks of this process; each has a sign-in of its own.
function showTasks(tasks) {
  at("tasks").hidden = !tasks.length;
  at("tasks").replaceChildren(...tasks.map(({ name, at: href }) => {
    const link = document.createElement("a");
    [link.href, link.textContent] = [href, name];
    if (href === "./") link.setAttribute("aria-current", "page");
    return link;
  }));
}

async function enter() {
  const person = await ask("session");
  at("door").hidden = true;
  for (const id of ["board", "who", "sections"]) at(id).hidden = false;
  at("person").textContent = `${person.name}, ${person.role}`;
  showTasks(person.tasks ?? []);
  drawn.clear();
  catalogue = null;
  listen();
}

at("door").addEventListener("submit", async (event) => {
  event.preventDefault();
  at("wrong").textContent = "";
  const answer = await fetch("session", {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token: at("token").value.trim() }),
  });
  if (answer.ok) { at("token").value = ""; await enter(); } else {
    at("wrong").textContent = answer.status === 401 ? "Nobody has this token." : "The coordinator did not answer as expected. Try again.";
  }
});
at("leave").addEventListener("click", async () => {
  await fetch("session", { method: "DELETE", credentials: "same-origin" });
  showDoor();
});
let resizing = 0;
window.addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => { drawn.clear(); if (latest && events) draw(latest); }, 150);
});
let typing = 0;
at("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => findItems().catch(() => {}), 200);
});
at("more").addEventListener("click", () => findItems(true).catch(() => {}));
function begin() {
  enter().catch(() => {
    if (!at("door").hidden) return; // nobody is signed in
    at("notice").hidden = false;
    at("board").hidden = false;
    at("notice").className = "notice unreachable";
    at("notice-words").textContent = "The coordinator does not answer.";
    at("notice-help").textContent = "This page tries again by itself.";
    setTimeout(begin, 2000);
  });
}
begin();
