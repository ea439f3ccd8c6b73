import { defineConfig } from 'vite';

/**
 * Builds the sidecar into few files, because Node spends most of a start on finding and loading modules one by one. All
 * files are in one folder: threads and migrations are found beside the code that asks for them.
 */
export default defineConfig({
  publicDir: false,
  logLevel: 'warn',
  // What every start loads. The other packages are loaded only if they are configured, and stay as they are.
  ssr: { noExternal: ['commander', 'http-proxy', 'lru-cache', 'pino', 'prom-client', 'yaml', 'zod'] },
  build: {
    ssr: true,
    // Another build puts the console there.
    emptyOutDir: false,
    target: 'node26',
    minify: false,
    sourcemap: true,
    rolldownOptions: {
      input: {
        main: 'src/main.ts',
        'load-worker': 'src/config/load-worker.ts',
        worker: 'src/accounts/file/worker.ts',
        'demo/serve-core': 'src/demo/serve-core.ts',
      },
      output: { chunkFileNames: '[name].js', sourcemapExcludeSources: true },
    },
  },
});
