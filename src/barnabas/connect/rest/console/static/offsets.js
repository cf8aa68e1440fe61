// Edit the offsets of a connector: fields, a preview by the worker of what they would do, then the change itself.
// Only changed rows are sent. Nothing here creates HTML from text.

import { request } from "./rest.js";

const STOP_WAIT_MS = 60000;
const root = document.getElementById("offsets");
const rows = document.getElementById("rows");
const preview = document.getElementById("preview");
const summary = document.getElementById("summary");
const changes = document.getElementById("changes");
const notice = document.getElementById("notice");
const alarm = document.getElementById("alarm");
const apply = document.getElementById("apply");
const done = document.getElementById("done");
const notStopped = document.getElementById("not-stopped");

const isSink = root.dataset.sink === "yes";
const path = root.dataset.path;
let isStopped = root.dataset.stopped === "yes";
let isRefused = false;
let previewed = null;

function fields() {
  return [...rows.querySelectorAll("input.offset")];
}

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// The offset of a field; null deletes the position. Throws an Error that names the field.
function offset(field) {
  const text = field.value.trim();
  if (!text) return null;
  if (isSink) return { kafka_offset: text };
  try {
    const value = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("it is not an object");
    return value;
  } catch (error) {
    field.setAttribute("aria-invalid", "true");
    field.focus();
    throw new Error(`The position of ${field.dataset.partition} must be a JSON object: ${error.message}`);
  }
}

function changed() {
  return fields().filter((field) => field.value.trim() !== field.defaultValue.trim());
}

function body(chosen) {
  return { offsets: chosen.map((field) => ({ partition: JSON.parse(field.dataset.partition), offset: offset(field) })) };
}

function count(number) {
  return number.toLocaleString("en").replaceAll(",", "\u202f");
}

function records(number) {
  return number === 1 ? "1 record" : `${count(number)} records`;
}

function named(partition) {
  return isSink && partition ? `${partition.kafka_topic}, ${partition.kafka_partition}` : JSON.stringify(partition);
}

function shown(position) {
  if (position === null) return "none";
  return isSink && position.kafka_offset !== undefined ? String(position.kafka_offset) : JSON.stringify(position);
}

function effect(change) {
  if (change.problem) return `Refused: ${change.problem}`;
  const parts = [];
  if (change.again) parts.push(`${records(change.again)} read again`);
  if (change.skipped) parts.push(`${records(change.skipped)} skipped`);
  if (change.again === 0 && change.skipped === 0) parts.push("nothing read again or skipped");
  const effects = parts.join("; ") || (change.note ? "" : "the position changes");
  return [effects, change.note].filter(Boolean).join(". ");
}

function row(change) {
  const made = element("tr", undefined, { role: "row" });
  made.append(element("th", named(change.partition), { role: "rowheader", scope: "row" }));
  for (const [label, text] of [["Now", shown(change.before)], ["New", shown(change.after)], ["Effect", effect(change)]]) {
    made.append(element("td", text, { role: "cell", "data-label": label }));
  }
  if (change.problem) made.lastChild.classList.add("refused");
  return made;
}

function summed(found) {
  const refused = found.changes.filter((change) => change.problem).length;
  if (refused) return `${refused} of ${found.changes.length} rows would be refused. Correct them, and preview again.`;
  const total = (key) => found.changes.reduce((sum, change) => sum + (change[key] ?? 0), 0);
  const text = isSink ? `In all, ${records(total("again"))} would be read again, and ${records(total("skipped"))} skipped.` : "These positions would change.";
  return isStopped ? text : `${text} The connector is not stopped yet.`;
}

function enable() {
  notStopped.hidden = isStopped;
  apply.hidden = isRefused || !isStopped;
}

function forget() {
  previewed = null;
  preview.hidden = true;
}

async function attempt(text, work) {
  alarm.textContent = "";
  notice.textContent = text;
  try {
    await work();
  } catch (error) {
    notice.textContent = "";
    alarm.textContent = error.message;
  }
}

async function show() {
  const chosen = changed();
  if (!chosen.length) throw new Error("No field has changed.");
  const wanted = body(chosen);
  const found = await request("POST", `${path}/offsets/preview`, wanted);
  previewed = { chosen, wanted };
  isStopped = found.is_stopped;
  isRefused = found.is_refused;
  changes.replaceChildren(...found.changes.map(row));
  summary.textContent = summed(found);
  preview.hidden = false;
  enable();
  notice.textContent = "";
  document.getElementById("preview-title").focus();
}

async function change() {
  const { chosen, wanted } = previewed;
  const { message } = await request("PATCH", `${path}/offsets`, wanted);
  for (const field of chosen) {
    field.defaultValue = field.value;
    const now = field.closest("tr").querySelector("[data-label='Now']");
    now.textContent = field.value.trim() || "–";
  }
  forget();
  done.hidden = false;
  notice.textContent = message;
  document.getElementById("resume").focus();
}

async function stop() {
  await request("PUT", `${path}/stop`);
  const deadline = Date.now() + STOP_WAIT_MS;
  for (;;) {
    const status = await request("GET", `${path}/status`);
    if (status.connector.state === "STOPPED" && !status.tasks.length) break;
    if (Date.now() > deadline) throw new Error("The connector was told to stop, but has not stopped within a minute.");
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  isStopped = true;
  enable();
  notice.textContent = "The connector is stopped.";
  if (previewed) await show();
}

async function resume() {
  await request("PUT", `${path}/resume`);
  location.assign(done.querySelector("a").href);
}

function fill(key) {
  for (const field of fields()) {
    if (!key) field.value = field.defaultValue;
    else if (field.dataset[key]) field.value = field.dataset[key];
  }
  forget();
}

function partition() {
  const text = document.getElementById("new-partition").value.trim();
  if (isSink) {
    const topic = document.getElementById("new-topic").value.trim();
    if (!topic || !/^\d+$/.test(text)) throw new Error("Another partition needs a topic and a number.");
    return { kafka_topic: topic, kafka_partition: Number(text) };
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The partition is not JSON: ${error.message}`);
  }
}

async function add() {
  const wanted = partition();
  const number = fields().length;
  const made = element("tr", undefined, { role: "row" });
  made.append(element("th", named(wanted), { role: "rowheader", scope: "row", id: `partition-${number}` }));
  for (const label of isSink ? ["First", "End", "Now"] : ["Now"]) {
    made.append(element("td", "–", { role: "cell", "data-label": label, ...(isSink ? { class: "number" } : {}) }));
  }
  const cell = element("td", undefined, { role: "cell", "data-label": "New" });
  cell.append(element("label", `New offset ${number + 1}`, { class: "unseen", for: `offset-${number}` }));
  const field = element("input", undefined, { id: `offset-${number}`, class: "offset", "aria-describedby": `partition-${number}`, autocomplete: "off", "data-first": "", "data-end": "" });
  field.dataset.partition = JSON.stringify(wanted);
  cell.append(field);
  made.append(cell);
  rows.append(made);
  notice.textContent = "";
  field.focus();
}

function press(id, text, work) {
  document.getElementById(id)?.addEventListener("click", () => attempt(text, work));
}

press("show", "Asking the worker …", show);
press("apply", "Changing the offsets …", change);
press("stop", "Stopping the connector …", stop);
press("resume", "Resuming the connector …", resume);
press("add", "", add);
document.getElementById("to-first")?.addEventListener("click", () => fill("first"));
document.getElementById("to-end")?.addEventListener("click", () => fill("end"));
document.getElementById("as-now")?.addEventListener("click", () => fill(""));
rows.addEventListener("input", (event) => {
  event.target.removeAttribute("aria-invalid");
  forget();
});
enable();
