// HTML from templates: everything that is put in is escaped, unless it is HTML from here.

/** A piece of HTML. Only `html` makes it. */
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

/** Tagged template: texts are escaped, lists are joined, undefined and false are left out. */
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

/** A sentence of a description: `code` between backticks, the rest as text. */
export function prose(text = ''): Html {
  const parts = text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part));
  return html`${parts}`;
}
