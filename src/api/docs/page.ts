// The frame of every documentation page: one style sheet, the same navigation, and no script but that of /docs/try.
import { type Html, html } from './html.ts';

/** The pages in the order of the navigation. */
export const PAGES = {
  '/docs': 'API',
  '/docs/quickstart': 'Quickstart',
  '/docs/beats': 'Beats',
  '/docs/states': 'States',
  '/docs/deadlines': 'Deadlines',
  '/docs/webhooks': 'Webhooks',
  '/docs/limits': 'Limits',
  '/docs/retention': 'Retention',
  '/docs/problems': 'Problems',
  '/docs/try': 'Try',
  '/docs/openapi.json': 'OpenAPI',
} as const;
export type PagePath = keyof typeof PAGES;

/** `path`: the place in the navigation. */
export function page(path: PagePath, title: string, content: Html): string {
  const link = ([to, name]: [string, string]) =>
    to === path
      ? html`<li><a href="${to}" aria-current="page">${name}</a></li>`
      : html`<li><a href="${to}">${name}</a></li>`;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} - Beatkeeper</title>
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<a class="skip" href="#content">Skip to the text</a>
<header><a href="/docs">Beatkeeper</a><nav aria-label="Documentation"><ul>${Object.entries(PAGES).map(link)}</ul></nav></header>
<main id="content">
${content}
</main>
</body>
</html>
`.toString();
}

export const STYLE = `:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --accent: #7cbcff; } }
html { scroll-padding-top: 1rem; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; overflow-wrap: break-word; }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 1rem; }
header { display: flex; flex-wrap: wrap; gap: 0.5rem 2rem; padding: 0.75rem 1rem; border-bottom: 1px solid var(--line); }
header > a { font-weight: 600; }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; list-style: none; margin: 0; padding: 0; }
nav a[aria-current] { color: inherit; font-weight: 600; text-decoration: none; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
a { color: var(--accent); }
:is(h2, h3, h4) > a { color: inherit; text-decoration: none; }
:is(h2, h3, h4) > a:hover::after { content: " #"; color: var(--accent); }
section { border-top: 1px solid var(--line); padding: 0.5rem 0 1rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
code { background: var(--soft); padding: 0 0.2em; border-radius: 3px; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: 0.75rem; overflow-x: auto; border-radius: 6px; }
pre code { background: none; padding: 0; overflow-wrap: normal; }
pre.run { border-left: 3px solid var(--accent); }
pre.run::before { content: "Run:"; display: block; color: var(--accent); font: 12px system-ui, sans-serif; }
table { border-collapse: collapse; display: block; overflow-x: auto; margin: 0.75rem 0; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid var(--line); }
td:first-child { white-space: nowrap; }
td.wide { min-width: 16rem; }
.method { font-weight: 700; }
.columns { columns: 18rem; padding-left: 1.2rem; }
.call label { display: block; margin: 0.5rem 0; }
.call :is(input, select, textarea) { display: block; box-sizing: border-box; width: 100%; padding: 0.3rem; font: 14px/1.45 ui-monospace, monospace; }
.scroll { overflow-x: auto; margin: 1rem 0; }
svg { display: block; width: 100%; min-width: 34rem; max-width: 46rem; height: auto; }
svg rect { fill: var(--soft); stroke: currentColor; }
svg path { fill: none; stroke: currentColor; }
svg marker path { fill: currentColor; }
svg text { fill: currentColor; font: 15px system-ui, sans-serif; text-anchor: middle; }
svg text.label { font-size: 12px; }
`;
