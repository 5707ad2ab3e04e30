// The frame of every documentation page: no scripts, one style sheet.
import { type Html, html } from './html.ts';

export function page(title: string, content: Html): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} - Beatkeeper</title>
<link rel="stylesheet" href="/docs/style.css">
</head>
<body>
<header><a href="/docs">Beatkeeper API</a><nav>
<a href="/docs/webhooks">Webhooks</a>
<a href="/docs/problems">Problems</a>
<a href="/docs/openapi.json">OpenAPI</a></nav></header>
<main>
${content}
</main>
</body>
</html>
`.toString();
}

export const STYLE = `:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #0b6bcb; }
@media (prefers-color-scheme: dark) { :root { --accent: #6cb2ff; } }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; }
header { display: flex; flex-wrap: wrap; gap: 0.5rem 2rem; padding: 0.75rem 1rem; border-bottom: 1px solid var(--line); }
header > a { font-weight: 600; }
nav { display: flex; gap: 1rem; }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
a { color: var(--accent); }
section { border-top: 1px solid var(--line); padding: 0.5rem 0 1rem; }
code, pre { font: 14px/1.45 ui-monospace, monospace; }
code { background: var(--soft); padding: 0 0.2em; border-radius: 3px; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: 0.75rem; overflow-x: auto; border-radius: 6px; }
pre code { background: none; padding: 0; }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto; margin: 0.75rem 0; }
td:first-child { white-space: nowrap; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid var(--line); }
.method { font-weight: 700; }
.columns { columns: 18rem; padding-left: 1.2rem; }
`;
