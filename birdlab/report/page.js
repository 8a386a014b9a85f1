// The page reads without this: it only sorts and searches tables and marks the chapter on screen.
document.querySelectorAll("table.sortable").forEach(function (table) {
  var body = table.tBodies[0];
  var said = document.createElement("p");
  said.className = "vh";
  said.setAttribute("aria-live", "polite");
  table.parentNode.after(said);
  function value(row, i) {
    var cell = row.cells[i];
    return cell.classList.contains("n") ? cell.dataset.v || "" : cell.textContent;
  }
  table.querySelectorAll("thead th").forEach(function (head, i) {
    var button = document.createElement("button");
    var name = head.textContent;
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", function () {
      var order = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
      table.querySelectorAll("th[aria-sort]").forEach(function (h) { h.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", order < 0 ? "descending" : "ascending");
      said.textContent = "Sorted by " + name + (order < 0 ? ", descending" : ", ascending");
      Array.from(body.rows).sort(function (a, b) {
        var x = value(a, i), y = value(b, i);
        if (x === "" || y === "") return (x === "") - (y === "");  // undefined stays last
        return order * (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
      }).forEach(function (row) { body.append(row); });
    });
  });
});
document.querySelectorAll(".bl-tw.long").forEach(function (box) {
  var rows = Array.from(box.querySelectorAll("tbody tr"));
  var line = document.createElement("label"), input = document.createElement("input"), found = document.createElement("span");
  line.className = "bl-find";
  input.type = "search";
  found.setAttribute("aria-live", "polite");
  line.append("Find ", input, found);
  box.before(line);
  input.addEventListener("input", function () {
    var wanted = input.value.trim().toLowerCase(), n = 0;
    rows.forEach(function (row) {
      row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
      n += row.hidden ? 0 : 1;
    });
    found.textContent = wanted === "" ? "" : n + " of " + rows.length;
  });
});
(function () {
  var links = new Map();
  document.querySelectorAll("nav a[href^='#']").forEach(function (a) { links.set(a.hash.slice(1), a); });
  if (!("IntersectionObserver" in window)) return;
  var watch = new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) {
      if (!entry.isIntersecting) return;
      links.forEach(function (a) { a.removeAttribute("aria-current"); });
      var link = links.get(entry.target.id), nav = link && link.closest("nav");
      if (!link) return;
      link.setAttribute("aria-current", "true");
      if (nav.scrollWidth > nav.clientWidth) nav.scrollLeft = link.offsetLeft - nav.offsetLeft - 20;
    });
  }, { rootMargin: "-15% 0px -75% 0px" });
  document.querySelectorAll("main section[id]").forEach(function (s) { watch.observe(s); });
})();
