// What an accessibility checker would say of the page as it is: names, contrast, headings, ids and overflow.
() => {
  const faults = [];
  const visible = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getClientRects().length > 0;
  const told = (node) => `${node.tagName.toLowerCase()}#${node.id}.${node.getAttribute("class") ?? ""} "${node.textContent.trim().slice(0, 30)}"`;

  const nameOf = (node) => {
    const by = (node.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "");
    const labels = [...(node.labels ?? [])].map((label) => label.textContent);
    return [node.getAttribute("aria-label") ?? "", ...by, ...labels, node.matches("input, select, textarea") ? "" : node.textContent].join("").trim();
  };
  for (const node of document.querySelectorAll("button, a, input, select, textarea, output, summary, [role]")) {
    if (visible(node) && !["alert", "status"].includes(node.getAttribute("role")) && !nameOf(node)) faults.push(`no name: ${told(node)}`);
  }
  for (const node of document.querySelectorAll("[aria-labelledby], [aria-describedby], [aria-controls], label[for]")) {
    for (const name of ["aria-labelledby", "aria-describedby", "aria-controls", "for"]) {
      for (const id of (node.getAttribute(name) ?? "").split(" ").filter(Boolean)) {
        if (!document.getElementById(id)) faults.push(`${name} names nothing: ${id}`);
      }
    }
  }
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  ids.filter((id, place) => ids.indexOf(id) !== place).forEach((id) => faults.push(`id twice: ${id}`));
  if (!document.documentElement.lang) faults.push("no language");
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) faults.push("not one main");

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const painted = (...colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) {
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
    }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    const found = [];
    for (let each = node; each; each = each.parentElement) found.unshift(getComputedStyle(each).backgroundColor);
    return found;
  };
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === Node.TEXT_NODE && child.textContent.trim());
    if (!own || !visible(node) || node.closest(".hidden, .skip, :disabled")) continue;
    const below = behind(node);
    const [text, ground] = [painted(...below, getComputedStyle(node).color), painted(...below)].map(luminance);
    const ratio = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    if (ratio < 4.5) faults.push(`contrast ${ratio.toFixed(2)}: ${told(node)}`);
  }

  for (const part of [document.documentElement, document.querySelector("#log"), document.querySelector("#panel")]) {
    if (part && part.scrollWidth > part.clientWidth) faults.push(`${part.id || "page"} is ${part.scrollWidth} wide in ${part.clientWidth}`);
  }
  for (const node of document.querySelectorAll("button, a, select, input:not([type=checkbox])")) {
    const box = node.getBoundingClientRect();
    if (visible(node) && !node.closest(".skip") && (box.height < 24 || box.width < 24)) faults.push(`too small to touch: ${told(node)}`);
  }
  return faults;
}
