// One tooltip for all charts. It repeats what the chart's table or its live text says, and is
// hidden from assistive technology.
import {el} from "./dom.js";

const box = el("div", {class: "tip", "aria-hidden": "true", hidden: true});

export function install() {
  document.body.append(box);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  addEventListener("scroll", hide, {passive: true});
}

// lines: the first one is the heading.
export function show(x, y, lines) {
  box.replaceChildren(el("strong", {}, lines[0]), ...lines.slice(1).map((line) => el("div", {}, line)));
  box.hidden = false;
  const {width, height} = box.getBoundingClientRect();
  const right = x + 14 + width > innerWidth ? Math.max(4, x - width - 14) : x + 14;
  const below = y + 14 + height > innerHeight ? Math.max(4, y - height - 14) : y + 14;
  box.style.transform = `translate(${Math.round(right)}px, ${Math.round(below)}px)`;
}

export function hide() {
  box.hidden = true;
}

// Shows the lines while the pointer is over the node or the node has the focus.
export function attach(node, lines) {
  const at = (event) => show(event.clientX, event.clientY, lines());
  node.addEventListener("pointerenter", at);
  node.addEventListener("pointermove", at);
  node.addEventListener("pointerleave", hide);
  node.addEventListener("focus", () => {
    const place = node.getBoundingClientRect();
    show(place.left + place.width / 2, place.bottom, lines());
  });
  node.addEventListener("blur", hide);
}
