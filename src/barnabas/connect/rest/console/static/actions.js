// Buttons: each names a request to the REST API, and needs a confirmation. The worker checks the user and the origin.

import { announce, refresh } from "./live.js";
import { request } from "./rest.js";

const dialog = document.getElementById("confirm");
const yes = document.getElementById("confirm-yes");
const no = document.getElementById("confirm-no");
const option = document.getElementById("confirm-option");
const alarm = document.getElementById("alarm");

let chosen = null;

function open(button) {
  chosen = button;
  const { title, text, option: optionText } = button.dataset;
  document.getElementById("confirm-title").textContent = title;
  document.getElementById("confirm-text").textContent = text;
  document.getElementById("confirm-option-row").hidden = !optionText;
  document.getElementById("confirm-option-text").textContent = optionText ?? "";
  option.checked = false;
  yes.textContent = button.textContent;
  yes.classList.toggle("danger", button.classList.contains("danger"));
  dialog.showModal();
  no.focus();
}

async function perform(action, isOptionOn) {
  const { method, path, done, then, optionQuery } = action;
  alarm.textContent = "";
  announce("Waiting for the worker …");
  try {
    await request(method, path + (isOptionOn && optionQuery ? optionQuery : ""));
  } catch (error) {
    announce("");
    alarm.textContent = error.message;
    return;
  }
  if (then) {
    location.assign(then);
    return;
  }
  await refresh();
  announce(done);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-method]");
  if (button) open(button);
});
no.addEventListener("click", () => dialog.close());
yes.addEventListener("click", async () => {
  const action = { ...chosen.dataset };
  const isOptionOn = option.checked;
  dialog.close();
  await perform(action, isOptionOn);
});
