// Runs around the page, which itself runs nothing: measures it in a frame as wide as a small telephone.
addEventListener("load", () => {
  const frame = document.querySelector("iframe").contentDocument;
  const found = [];
  const wide = frame.documentElement.scrollWidth;
  if (wide > 360) found.push(`the page is ${wide} wide`);
  for (const element of frame.body.querySelectorAll("*")) {
    if (element.closest(".scroll, pre")) continue;
    const right = element.getBoundingClientRect().right;
    if (right > 360.5) found.push(`${element.tagName} reaches to ${right}`);
  }
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top + 2 || b.bottom <= a.top + 2;
  let texts = 0;
  for (const picture of frame.querySelectorAll("svg")) {
    const edge = picture.getBoundingClientRect();
    const all = [...picture.querySelectorAll("text")];
    const boxes = all.map((text) => text.getBoundingClientRect());
    texts += all.length;
    all.forEach((text, index) => {
      const words = text.firstChild.textContent;
      const own = boxes[index];
      const size = parseFloat(frame.defaultView.getComputedStyle(text).fontSize) * edge.width / 1000;
      if (size < 11) found.push(`${words} is ${size} px high`);
      if (own.right > edge.right + 0.5 || own.left < edge.left) found.push(`${words} leaves its picture`);
      for (let other = index + 1; other < all.length; other++) {
        const more = all[other].firstChild.textContent;
        if (!apart(own, boxes[other])) found.push(`"${words}" covers "${more}"`);
      }
    });
  }
  document.body.textContent = `measured ${texts} texts; findings: ${found.length}; ${found.join("; ")}`;
});
