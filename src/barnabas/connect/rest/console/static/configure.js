// Create or change a connector: a form generated from the worker's validation of each setting, or the same as JSON.
// The worker validates; its messages are shown next to their fields. Nothing here creates HTML from text.

import { Form } from "./form.js";
import { request } from "./rest.js";

const root = document.getElementById("configure");
const name = document.getElementById("name");
const plugin = document.getElementById("plugin");
const initial = document.getElementById("initial");
const jsonText = document.getElementById("json-text");
const jsonPart = document.getElementById("json");
const formPart = document.getElementById("form");
const asForm = document.getElementById("as-form");
const asJson = document.getElementById("as-json");
const problems = document.getElementById("problems");
const notice = document.getElementById("notice");
const buttons = [document.getElementById("validate"), document.getElementById("save")];

const isNew = root.dataset.new === "yes";
const settings = new Map(Object.entries(JSON.parse(root.dataset.config)).filter(([, value]) => value !== null));
const form = new Form(formPart, settings, () => later());
form.adopt("name", name);
form.adopt("connector.class", plugin);

let timer = 0;
let requests = 0;

function isJson() {
  return !jsonPart.hidden;
}

function config() {
  if (isJson()) takeJson();
  return { ...Object.fromEntries(settings), "connector.class": plugin.value, name: name.value };
}

// Parse the JSON: a configuration, or the body of POST /connectors. Throws an Error that describes the problem.
function takeJson() {
  let value;
  try {
    value = JSON.parse(jsonText.value);
  } catch (error) {
    throw new Error(`The configuration is not JSON: ${error.message}`);
  }
  const isObject = (candidate) => typeof candidate === "object" && candidate !== null && !Array.isArray(candidate);
  if (!isObject(value)) throw new Error('The configuration must be one JSON object: {"name": "value"}.');
  const given = isObject(value.config) ? { name: value.name, ...value.config } : value;
  for (const [key, entry] of Object.entries(given)) {
    if (typeof entry === "object" && entry !== null) throw new Error(`${key} must be a string, a number, true or false.`);
  }
  settings.clear();
  for (const [key, entry] of Object.entries(given)) {
    if (entry !== null && entry !== undefined) settings.set(key, String(entry));
  }
  if (isNew && settings.has("name")) name.value = settings.get("name");
  if (settings.has("connector.class")) choose(settings.get("connector.class"));
}

function choose(className) {
  if (![...plugin.options].some((choice) => choice.value === className)) plugin.append(new Option(className, className));
  plugin.value = className;
}

function showProblems(title, items) {
  problems.hidden = !title;
  document.getElementById("problems-title").textContent = title;
  document.getElementById("problems-list").replaceChildren(...items.map(problemItem));
}

function problemItem({ setting, text }) {
  const item = document.createElement("li");
  const control = setting && form.control(setting);
  if (control) {
    const link = document.createElement("a");
    link.href = `#${encodeURIComponent(control.id)}`;
    link.textContent = setting;
    link.addEventListener("click", (event) => {
      event.preventDefault();
      if (isJson()) jsonText.focus();
      else form.focus(setting);
    });
    item.append(link, ": ");
  } else if (setting) {
    item.append(`${setting}: `);
  }
  item.append(text);
  return item;
}

// An invalid number also counts as null; drop that second error.
function withoutEchoes(infos) {
  for (const { value } of infos.configs) {
    const errors = value.errors.filter((text) => !text.startsWith(`Invalid value null for configuration ${value.name}:`));
    if (errors.length) value.errors = errors;
  }
  return infos;
}

// Validate on the worker. Returns the number of errors; null without an answer, or if the answer is outdated.
async function validate({ isThorough }) {
  clearTimeout(timer);
  const turn = ++requests;
  formPart.setAttribute("aria-busy", "true");
  try {
    const given = config();
    if (!given["connector.class"]) throw new Error("Choose a class first.");
    const path = `/connector-plugins/${encodeURIComponent(given["connector.class"])}/config/validate`;
    const infos = withoutEchoes(await request("PUT", path, given));
    if (turn !== requests) return null;
    form.show(infos, { isThorough });
    const found = infos.configs.flatMap(({ value }) => value.errors.map((text) => ({ setting: value.name, text })));
    const count = found.length === 1 ? "1 problem" : `${found.length} problems`;
    if (isThorough) showProblems(found.length ? count : "", found);
    else if (!problems.hidden) showProblems("", []);
    return infos.error_count;
  } catch (error) {
    if (turn !== requests) return null;
    showProblems("The request failed", [{ text: error.message }]);
    return null;
  } finally {
    if (turn === requests) formPart.setAttribute("aria-busy", "false");
  }
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(() => validate({ isThorough: false }), 400);
}

async function validateThoroughly() {
  notice.textContent = "";
  const count = await validate({ isThorough: true });
  if (count === 0) notice.textContent = "The configuration is valid.";
  else problems.focus();
  return count === 0;
}

async function save() {
  if (!(await validateThoroughly())) return;
  notice.textContent = "Waiting for the worker …";
  try {
    const given = config();
    if (isNew) await request("POST", "/connectors", { name: name.value, config: given, initial_state: initial.value });
    else await request("PUT", `/connectors/${encodeURIComponent(name.value)}/config`, given);
    location.assign(root.dataset.pages + encodeURIComponent(name.value));
  } catch (error) {
    notice.textContent = "";
    showProblems("The request failed", [{ text: error.message }]);
    problems.focus();
  }
}

function showAs(isJsonWanted) {
  try {
    if (isJsonWanted) jsonText.value = JSON.stringify(config(), null, 2);
    else if (isJson()) {
      takeJson();
      form.clear();
    }
  } catch (error) {
    showProblems("The request failed", [{ text: error.message }]);
    problems.focus();
    return;
  }
  jsonPart.hidden = !isJsonWanted;
  formPart.hidden = isJsonWanted;
  asJson.setAttribute("aria-pressed", String(isJsonWanted));
  asForm.setAttribute("aria-pressed", String(!isJsonWanted));
  if (isJsonWanted) jsonText.focus();
  else if (plugin.value) validate({ isThorough: false });
}

async function whileBusy(work) {
  for (const button of buttons) button.disabled = true;
  try {
    await work();
  } finally {
    for (const button of buttons) button.disabled = false;
  }
}

asJson.addEventListener("click", () => isJson() || showAs(true));
asForm.addEventListener("click", () => isJson() && showAs(false));
plugin.addEventListener("change", () => {
  if (isJson()) jsonText.value = JSON.stringify({ ...Object.fromEntries(settings), "connector.class": plugin.value, name: name.value }, null, 2);
  form.clear();
  showProblems("", []);
  if (plugin.value) validate({ isThorough: false });
});
name.addEventListener("change", () => plugin.value && !isJson() && later());
buttons[0].addEventListener("click", () => whileBusy(validateThoroughly));
buttons[1].addEventListener("click", () => whileBusy(save));
if (plugin.value) validate({ isThorough: !isNew });
