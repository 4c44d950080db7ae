// The navigation shows the entry of the page, however far down it is.
window.addEventListener("load", () => {
  const entry = document.querySelector(".sidebar-tree .current-page");
  const frame = document.querySelector(".sidebar-scroll");
  if (entry && frame) frame.scrollTop += entry.getBoundingClientRect().top - frame.getBoundingClientRect().top - frame.clientHeight / 3;
});
