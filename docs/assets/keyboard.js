// Below this width the theme's menu is a drawer whose buttons are labels of hidden boxes: the theme answers Enter on a
// label, but the Tab key does not reach one.
const narrow = window.matchMedia("(max-width: 76.234375em)");
const drawer = document.getElementById("__drawer");
const menu = document.querySelector('label.md-header__button[for="__drawer"]');
const labels = [menu, ...document.querySelectorAll('.md-sidebar--primary label[for^="__nav"]')];
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
  else setTimeout(() => document.querySelector(".md-sidebar--primary a.md-nav__link").focus(), 300); // it slides in
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && drawer.checked) drawer.click();
});
narrow.addEventListener("change", reach);
reach();
