// A form generated from a validation (ConfigInfos): one field for each setting, by groups, with its errors.

const GENERAL = "Settings of this class";
const OTHER = "Other settings";
const SECRET = /(password|passphrase|secret|token)$/i;
const ANOTHER = " another";

// Whether the recommended values are the usual choices; versions may also be ranges.
function isChoice(definition, values) {
  return definition?.type === "STRING" && values.length > 0 && !definition.name.endsWith("version");
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export class Form {
  // `settings` is a Map that the fields write to; it omits empty values.
  constructor(place, settings, onChange) {
    this.place = place;
    this.settings = settings;
    this.onChange = onChange;
    this.fields = new Map();
    this.groups = new Map();
    this.adopted = new Map();
    this.touched = new Set();
    this.free = new Set();
  }

  // Use an existing control of the page as the field of this setting.
  adopt(setting, control) {
    this.adopted.set(setting, control);
  }

  control(setting) {
    return this.adopted.get(setting) ?? this.fields.get(setting)?.control ?? null;
  }

  focus(setting) {
    const control = this.control(setting);
    const group = control?.closest("details");
    if (group) group.open = true;
    control?.focus();
  }

  clear() {
    this.fields.clear();
    this.groups.clear();
    this.touched.clear();
    this.free.clear();
    this.place.replaceChildren();
  }

  // `isThorough` shows every error; otherwise only those of fields that the user has touched.
  show(infos, { isThorough }) {
    const focused = document.activeElement;
    const order = [GENERAL, ...infos.groups, OTHER];
    const wanted = new Set();
    for (const { definition, value } of infos.configs) {
      const errors = isThorough || this.touched.has(value.name) || this.settings.get(value.name) ? value.errors : [];
      if (this.adopted.has(value.name)) {
        showErrors(this.adopted.get(value.name), errors);
        continue;
      }
      if (!value.visible && !errors.length) continue;
      wanted.add(value.name);
      const group = definition ? (definition.group ?? GENERAL) : OTHER;
      if (!order.includes(group)) order.splice(-1, 0, group);
      const field = this.field(value.name, definition, group, value.recommended_values);
      showErrors(field.control, errors);
      showRecommended(field, value.recommended_values);
      if (errors.length || definition?.required || this.settings.has(value.name)) field.group.open = true;
    }
    for (const name of this.settings.keys()) {
      if (wanted.has(name) || this.adopted.has(name)) continue;
      wanted.add(name);
      this.field(name, null, OTHER);
    }
    for (const [name, field] of this.fields) if (!wanted.has(name)) this.remove(name, field);
    this.place.append(...order.filter((group) => this.groups.has(group)).map((group) => this.groups.get(group)), this.adder());
    if (focused?.isConnected) focused.focus();
  }

  remove(name, field) {
    field.box.remove();
    this.fields.delete(name);
  }

  field(name, definition, groupName, values = []) {
    const known = this.fields.get(name);
    const choices = isChoice(definition, values) && !this.free.has(name) ? values.filter(Boolean) : [];
    const form = JSON.stringify([definition?.type, groupName, choices]);
    if (known?.form === form) return known;
    const made = { ...this.made(name, definition, choices), form, group: this.group(groupName) };
    if (known?.group === made.group) known.box.replaceWith(made.box);
    else {
      known?.box.remove();
      made.group.append(made.box);
    }
    made.release = () => {
      this.free.add(name);
      this.field(name, definition, groupName);
      this.focus(name);
    };
    this.fields.set(name, made);
    return made;
  }

  group(name) {
    if (!this.groups.has(name)) {
      const made = element("details", { class: "group" }, element("summary", {}, name));
      made.open = name === GENERAL || name === OTHER;
      this.groups.set(name, made);
    }
    return this.groups.get(name);
  }

  made(name, definition, choices) {
    const id = `setting-${name}`;
    const control = this.madeControl(id, definition, choices);
    const value = this.settings.get(name) ?? "";
    control.value = value;
    if (control.value !== value && control.tagName === "SELECT") control.append(new Option(value, value, true, true));
    const label = element("label", { for: id }, definition?.display_name ?? name);
    if (definition?.required) label.append(" (required)");
    const box = element("div", { class: "field" }, label);
    if (definition && definition.display_name !== name) box.append(element("span", { class: "name" }, name));
    box.append(control);
    if (definition?.documentation) {
      control.dataset.help = `${id}-help`;
      box.append(element("p", { class: "help", id: `${id}-help` }, definition.documentation));
    }
    const write = () => {
      if (control.value === ANOTHER) return;
      if (control.value === "") this.settings.delete(name);
      else this.settings.set(name, control.value);
      this.touched.add(name);
    };
    control.addEventListener("input", write);
    control.addEventListener("change", () => {
      write();
      if (control.value === ANOTHER) this.fields.get(name).release();
      else this.onChange();
    });
    return { control, box };
  }

  madeControl(id, definition, choices) {
    const common = { id, name: id, "aria-required": definition?.required ? "true" : null };
    const fallback = definition?.default_value;
    const isBoolean = definition?.type === "BOOLEAN";
    if (isBoolean || choices.length) {
      const unset = new Option(fallback ? `default (${fallback})` : definition.required ? "Choose one" : "not set", "");
      const offered = (isBoolean ? ["true", "false"] : choices).map((value) => new Option(value, value));
      const another = isBoolean ? [] : [new Option("another value …", ANOTHER)];
      return element("select", common, unset, ...offered, ...another);
    }
    const isSecret = definition ? definition.type === "PASSWORD" : SECRET.test(id);
    const isNumber = ["INT", "LONG", "SHORT"].includes(definition?.type);
    return element("input", {
      ...common,
      type: isSecret ? "password" : "text",
      autocomplete: isSecret ? "new-password" : "off",
      spellcheck: "false",
      inputmode: isNumber ? "numeric" : null,
      placeholder: fallback ? `default: ${fallback}` : null,
    });
  }

  // For undefined settings, or those that depend on another setting.
  adder() {
    if (this.adding) return this.adding;
    const name = element("input", { id: "adding", autocomplete: "off", spellcheck: "false", placeholder: "transforms" });
    const add = element("button", { type: "button" }, "Add");
    add.addEventListener("click", () => {
      const wanted = name.value.trim();
      if (!wanted) return;
      if (!this.control(wanted)) {
        this.field(wanted, null, OTHER);
        this.place.insertBefore(this.groups.get(OTHER), this.adding);
      }
      name.value = "";
      this.focus(wanted);
    });
    this.adding = element("div", { class: "field" }, element("label", { for: "adding" }, "Another setting"), name, add);
    return this.adding;
  }
}

function showErrors(control, errors) {
  const id = `${control.id}-errors`;
  let list = document.getElementById(id) ?? control.parentElement.querySelector("ul.errors");
  if (!list) {
    list = element("ul", { class: "errors", id });
    control.after(list);
  }
  list.replaceChildren(...errors.map((text) => element("li", {}, text)));
  list.hidden = errors.length === 0;
  if (errors.length) control.setAttribute("aria-invalid", "true");
  else control.removeAttribute("aria-invalid");
  const described = [errors.length ? id : "", control.dataset.help ?? ""].filter(Boolean).join(" ");
  if (described) control.setAttribute("aria-describedby", described);
  else control.removeAttribute("aria-describedby");
}

function showRecommended({ control, box }, values) {
  if (control.tagName !== "INPUT" || control.type === "password") return;
  const id = `${control.id}-values`;
  box.querySelector("datalist")?.remove();
  if (!values.length) {
    control.removeAttribute("list");
    return;
  }
  control.setAttribute("list", id);
  box.append(element("datalist", { id }, ...values.filter((value) => value !== null).map((value) => new Option(value, value))));
}
