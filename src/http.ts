/**
 * Node's `node:http`. An `import` of it would read everything that it exports, `WebSocket` among it, which loads another
 * HTTP client: 16 MB of memory that nobody here uses.
 */
export const http = process.getBuiltinModule('node:http');
