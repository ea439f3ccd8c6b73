import { defineConfig } from 'vite';

/** Builds the operators' page into static files, beside the compiled code. */
export default defineConfig({
  root: 'src/console',
  base: '/console/',
  publicDir: false,
  logLevel: 'warn',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../../dist/console',
    emptyOutDir: true,
    target: 'es2024',
    // The content security policy allows no `data:` beyond images, and no inline script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
