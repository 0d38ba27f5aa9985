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
