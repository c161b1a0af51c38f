// The pieces of text of the page whose contrast with what is behind them is below 4.5: the ratio and the text of each.
(() => {
  const colour = text => {
    const parts = text.match(/[\d.]+/g).map(Number);
    return parts.length > 3 ? parts : [...parts, 1];
  };
  const over = (front, back) => [0, 1, 2].map(i => front[i] * front[3] + back[i] * (1 - front[3])).concat(1);
  const luminance = ([red, green, blue]) => {
    const linear = value => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  };
  const pale = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.textContent.trim() !== "");
    if (!hasText || !element.checkVisibility({opacityProperty: true}) || element.closest("svg, object, script, style")) continue;
    let opacity = 1;
    const behind = [];
    for (let at = element; at !== null; at = at.parentElement) {
      const style = getComputedStyle(at);
      opacity *= Number(style.opacity);
      behind.unshift(colour(style.backgroundColor));
    }
    const back = behind.reduce((below, front) => over(front, below), [255, 255, 255, 1]);
    const [red, green, blue, alpha] = colour(getComputedStyle(element).color);
    const bright = [luminance(over([red, green, blue, alpha * opacity], back)), luminance(back)].sort((a, b) => b - a);
    const ratio = (bright[0] + 0.05) / (bright[1] + 0.05);
    if (ratio < 4.5) pale.push(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${element.textContent.trim().slice(0, 40)}`);
  }
  return pale;
})()
