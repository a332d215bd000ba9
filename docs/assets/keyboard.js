// Below this width the theme's menu is a drawer whose buttons are labels of hidden boxes: the theme answers Enter on a
// label, but the Tab key does not reach one.
const narrow = window.matchMedia("(max-width: 76.234375em)");
const drawer = document.getElementById("__drawer");
const menu = document.querySelector('label.md-header__button[for="__drawer"]');
const inside = '.md-sidebar--primary :is(label[for^="__nav"], label[for="__toc"])';
const labels = [menu, ...document.querySelectorAll(inside)];
// The drawer may open at a chapter, which covers the list of all chapters: what is on top counts.
const seen = (item) => {
  const box = item.getBoundingClientRect();
  const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return box.width > 0 && top !== null && (item.contains(top) || top.contains(item));
};
const reach = () => labels.forEach((label) => {
  if (narrow.matches) label.tabIndex = 0;
  else label.removeAttribute("tabindex");
});
labels.forEach((label) => {
  label.setAttribute("role", "button");
  label.addEventListener("keydown", (event) => {
    if (event.key !== " ") return;
    event.preventDefault();
    label.click();
  });
});
menu.setAttribute("aria-label", "Menu");
drawer.addEventListener("change", () => {
  if (!drawer.checked) menu.focus();
  else setTimeout(() => { // it slides in
    [...document.querySelectorAll(`.md-sidebar--primary a.md-nav__link, ${inside}`)].find(seen)?.focus();
  }, 300);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && drawer.checked) drawer.click();
});
narrow.addEventListener("change", reach);
reach();
