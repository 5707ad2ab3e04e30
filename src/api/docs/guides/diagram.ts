// State diagrams as SVG without scripts and styles of its own: boxes on a grid, and arrows with a label.
import { type Html, html } from '../html.ts';

export interface Box {
  name: string;
  /** Of its center, in units of the view box. */
  at: readonly [x: number, y: number];
}

export interface Arrow {
  /** A path from the edge of one box to the edge of another. */
  path: string;
  label: string;
  at: readonly [x: number, y: number];
}

const BOX = { width: 120, height: 40 };

/** `words`: what a reader who does not see it is told. */
export function diagram(
  words: string,
  size: readonly [number, number],
  parts: { boxes: Box[]; arrows: Arrow[] },
): Html {
  const [width, height] = size;
  const arrow = `arrow-${parts.boxes[0]?.name}`;
  return html`<div class="scroll" tabindex="0"><svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${words}">
<defs><marker id="${arrow}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z"/></marker></defs>
${parts.boxes.map(
  ({ name, at: [x, y] }) =>
    html`<rect x="${x - BOX.width / 2}" y="${y - BOX.height / 2}" width="${BOX.width}" height="${BOX.height}" rx="6"/><text x="${x}" y="${y + 5}">${name}</text>\n`,
)}
${parts.arrows.map(
  ({ path, label, at: [x, y] }) =>
    html`<path d="${path}" marker-end="url(#${arrow})"/><text class="label" x="${x}" y="${y}">${label}</text>\n`,
)}
</svg></div>`;
}
