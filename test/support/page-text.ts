// What a block of a page under /docs says to who reads it.

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" };

export function textOf(html: string): string {
  return html.replaceAll(/&([#\w]+);/g, (_, name: string) => ENTITIES[name] ?? '');
}

/** The blocks that a page says to run. */
export function commandsOf(page: string): string[] {
  return [...page.matchAll(/<pre class="run"[^>]*><code>(.*?)<\/code>/gs)].map(([, block = '']) =>
    textOf(block),
  );
}
