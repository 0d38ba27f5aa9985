// What pages do beyond forms: the budget as it changes. They work without it.
"use strict";

const left = document.querySelector("[data-left]");
let stream = null;

function follow() {
  stream = new EventSource(left.dataset.left);
  stream.addEventListener("left", (event) => {
    const told = JSON.parse(event.data);
    left.querySelector("meter").value = told.share;
    left.querySelector("[data-left-words]").textContent = told.left;
    for (const place of document.querySelectorAll("[data-told]")) place.textContent = told[place.dataset.told];
  });
}

// A page that nobody looks at holds no connection: browsers have few of them for one place.
function look() {
  if (document.hidden && stream) {
    stream.close();
    stream = null;
  } else if (!document.hidden && !stream) {
    follow();
  }
}

if (left) {
  document.addEventListener("visibilitychange", look);
  look();
}

// The quote beside a form, while it is filled in; the latest answer counts.
const form = document.querySelector("form[data-live]");
let turn = 0;
let timer = 0;

async function quote(asked) {
  const mine = ++turn;
  const fields = new URLSearchParams(new FormData(form));
  fields.set("do", asked);
  const sent = await fetch(form.dataset.live, { method: "POST", body: fields, redirect: "manual" }).catch(() => null);
  if (mine !== turn || !sent) return;
  if (sent.type === "opaqueredirect") return location.reload();
  const told = new DOMParser().parseFromString(await sent.text(), "text/html").getElementById("quote");
  if (!told || mine !== turn) return;
  document.getElementById("quote").replaceChildren(...told.childNodes);
  mark(told.dataset.field);
}

// What is wrong is told where it stands, but not of what was left empty.
function mark(field) {
  for (const old of form.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
  for (const old of form.querySelectorAll(".wrong")) old.remove();
  const control = field && form.elements[`ask.${field}`];
  if (!control || !control.value) return;
  const told = document.createElement("p");
  told.className = "wrong";
  told.id = "wrong";
  told.textContent = document.querySelector("#quote-problem [data-detail]").textContent;
  control.after(told);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-errormessage", "wrong");
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(quote, 400, "quote");
}

if (form) {
  document.addEventListener("input", (event) => {
    if (event.target.form === form) soon();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[value=quote], button[value=compare]");
    if (!button || button.form !== form) return;
    event.preventDefault();
    clearTimeout(timer);
    quote(button.value);
  });
  if (!document.getElementById("quote-problem")) soon();
}

for (const select of document.querySelectorAll("select[data-submits]")) {
  select.addEventListener("change", () => select.form.requestSubmit());
  select.form.querySelector("button").hidden = true;
}

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll(".menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  const menu = event.key === "Escape" && event.target.closest(".menu[open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
