// HTML from templates. Every value is escaped, unless it is HTML that `html` made.

/** A piece of HTML. Only `html` makes one. */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

type Part = Html | string | number | undefined | false | readonly Part[];

/** A template tag: escapes texts, joins lists, leaves out undefined and false. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  return new Html(
    strings.map((text, index) => text + (index < parts.length ? render(parts[index]) : '')).join(''),
  );
}

function render(part: Part): string {
  if (part === undefined || part === false) return '';
  if (part instanceof Html) return part.toString();
  if (typeof part === 'string' || typeof part === 'number') return escapeText(String(part));
  return part.map(render).join('');
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeText(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

/** A description as HTML: `code` between backticks, the rest as text. */
export function prose(text = ''): Html {
  const parts = text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part));
  return html`${parts}`;
}

/** A heading that can be linked to. */
export function heading(level: 2 | 3 | 4, text: string, id = idOf(text)): Html {
  const link = html`<a href="#${id}">${text}</a>`;
  if (level === 2) return html`<h2 id="${id}">${link}</h2>`;
  return level === 3 ? html`<h3 id="${id}">${link}</h3>` : html`<h4 id="${id}">${link}</h4>`;
}

function idOf(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');
}

/** A block of code, of an answer, or of output. */
export function code(text: string): Html {
  return html`<pre tabindex="0"><code>${text.trimEnd()}</code></pre>`;
}

/** Commands to run in a shell. */
export function commands(text: string): Html {
  return html`<pre class="run" tabindex="0" role="group" aria-label="Commands to run"><code>${text.trim()}</code></pre>`;
}

/** Cells that are texts are read as prose: `code` between backticks. */
export function table(head: readonly string[], rows: readonly (readonly (Html | string)[])[]): Html {
  const cell = (value: Html | string) => html`<td>${typeof value === 'string' ? prose(value) : value}</td>`;
  return html`<table><thead><tr>${head.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${rows.map(
    (row) => html`<tr>${row.map(cell)}</tr>
`,
  )}</tbody></table>`;
}
