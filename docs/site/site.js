// The navigation shows the entry of the page, however far down it is.
window.addEventListener("load", () => {
  const entry = document.querySelector(".sidebar-tree .current-page");
  const frame = document.querySelector(".sidebar-scroll");
  if (!entry || !frame) return;
  const below = entry.getBoundingClientRect().top - frame.getBoundingClientRect().top;
  frame.scrollTo({ top: frame.scrollTop + below - frame.clientHeight / 3, behavior: "instant" });
});
