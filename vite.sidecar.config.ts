import { defineConfig, type Plugin } from 'vite';

/**
 * Parts of prom-client that the sidecar does not use: exemplars of OpenTelemetry, the push gateway with TLS, and
 * clusters. They are left out, because they would cost time and memory at every start.
 */
const unused: Plugin = {
  name: 'unused',
  enforce: 'pre',
  resolveId: (id, importer = '') =>
    importer.includes('/prom-client/') && /^(?:@opentelemetry\/api|\.\/lib\/(?:pushgateway|cluster))$/.test(id)
      ? '\0unused'
      : undefined,
  load: (id) => (id === '\0unused' ? 'export {}' : undefined),
};

/**
 * Builds the sidecar into few files, because Node spends most of a start on finding and loading modules one by one. All
 * files are in one folder: threads and migrations are found beside the code that asks for them.
 */
export default defineConfig({
  publicDir: false,
  logLevel: 'warn',
  plugins: [unused],
  ssr: {
    noExternal: true,
    // Loaded only if they are configured.
    external: [
      '@opentelemetry/api',
      '@opentelemetry/exporter-trace-otlp-proto',
      '@opentelemetry/resources',
      '@opentelemetry/sdk-trace',
      '@opentelemetry/semantic-conventions',
      'fastify',
      'node-pg-migrate',
      'pg',
    ],
  },
  build: {
    ssr: true,
    // Another build puts the console there.
    emptyOutDir: false,
    target: 'node26',
    minify: false,
    sourcemap: true,
    rolldownOptions: {
      // As globals they are getters of Node, called for each use: 1.5 % of a request.
      transform: {
        inject: {
          Buffer: ['node:buffer', 'Buffer'],
          performance: ['node:perf_hooks', 'performance'],
          process: 'node:process',
        },
      },
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
