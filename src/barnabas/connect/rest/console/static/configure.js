// Make or change a connector: a form made from what the worker says of each setting, or the same as JSON.
// The worker validates; what it says is shown next to the field it is about. Nothing here makes HTML from text.

import { Form } from "./form.js";
import { ask } from "./rest.js";

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
let asked = 0;

function isJson() {
  return !jsonPart.hidden;
}

function config() {
  if (isJson()) takeJson();
  return { ...Object.fromEntries(settings), "connector.class": plugin.value, name: name.value };
}

// Read what was typed. It may be a configuration, or what POST /connectors takes. Throws an Error that says what is wrong.
function takeJson() {
  let value;
  try {
    value = JSON.parse(jsonText.value);
  } catch (error) {
    throw new Error(`The configuration is no JSON: ${error.message}`);
  }
  const isObject = (each) => typeof each === "object" && each !== null && !Array.isArray(each);
  if (!isObject(value)) throw new Error('The configuration has to be one JSON object: {"name": "value"}.');
  const given = isObject(value.config) ? { name: value.name, ...value.config } : value;
  for (const [key, each] of Object.entries(given)) {
    if (typeof each === "object" && each !== null) throw new Error(`${key} has to be a text, a number, true or false.`);
  }
  settings.clear();
  for (const [key, each] of Object.entries(given)) {
    if (each !== null && each !== undefined) settings.set(key, String(each));
  }
  if (isNew && settings.has("name")) name.value = settings.get("name");
  if (settings.has("connector.class")) choose(settings.get("connector.class"));
}

function choose(className) {
  if (![...plugin.options].some((each) => each.value === className)) plugin.append(new Option(className, className));
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

// What is no number is null as well, which says nothing new.
function withoutEchoes(infos) {
  for (const { value } of infos.configs) {
    const told = value.errors.filter((text) => !text.startsWith(`Invalid value null for configuration ${value.name}:`));
    if (told.length) value.errors = told;
  }
  return infos;
}

// Ask the worker what it thinks. Gives the number of errors, null if the answer is outdated or there is none.
async function validate({ isThorough }) {
  clearTimeout(timer);
  const turn = ++asked;
  formPart.setAttribute("aria-busy", "true");
  try {
    const given = config();
    if (!given["connector.class"]) throw new Error("Choose a class first.");
    const path = `/connector-plugins/${encodeURIComponent(given["connector.class"])}/config/validate`;
    const infos = withoutEchoes(await ask("PUT", path, given));
    if (turn !== asked) return null;
    form.show(infos, { isThorough });
    const found = infos.configs.flatMap(({ value }) => value.errors.map((text) => ({ setting: value.name, text })));
    const count = found.length === 1 ? "One thing is not right" : `${found.length} things are not right`;
    if (isThorough) showProblems(found.length ? count : "", found);
    else if (!problems.hidden) showProblems("", []);
    return infos.error_count;
  } catch (error) {
    if (turn !== asked) return null;
    showProblems("That did not work", [{ text: error.message }]);
    return null;
  } finally {
    if (turn === asked) formPart.setAttribute("aria-busy", "false");
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
  notice.textContent = "The worker is asked …";
  try {
    const given = config();
    if (isNew) await ask("POST", "/connectors", { name: name.value, config: given, initial_state: initial.value });
    else await ask("PUT", `/connectors/${encodeURIComponent(name.value)}/config`, given);
    location.assign(root.dataset.pages + encodeURIComponent(name.value));
  } catch (error) {
    notice.textContent = "";
    showProblems("That did not work", [{ text: error.message }]);
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
    showProblems("That did not work", [{ text: error.message }]);
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
  for (const each of buttons) each.disabled = true;
  try {
    await work();
  } finally {
    for (const each of buttons) each.disabled = false;
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
