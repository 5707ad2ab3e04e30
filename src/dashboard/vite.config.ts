// Builds the dashboard into dist/dashboard: `npm run build:dashboard`, with `-- --watch` on each change.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: fileURLToPath(new URL('../../dist/dashboard', import.meta.url)),
    // Two builds at once write the same files: their names are the hashes of their content.
    emptyOutDir: false,
    target: 'es2023',
    // The policy of the pages allows no `data:`.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
