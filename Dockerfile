# The sidecar's image: its compiled code and the packages it runs on, over an image that has Node. docs/operators/image.md says
# how to pin the base and how to use one without a shell.
ARG BUILD_IMAGE=node:26-bookworm-slim
ARG BASE_IMAGE=node:26-bookworm-slim

FROM ${BUILD_IMAGE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Optional packages are types, and stubs for other runtimes.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-bin-links --omit-lockfile-registry-resolved
# The bill of materials, the same for the same lock file: without time and number, under a name that is not the folder's.
# `npm sbom` omits packages that are also development dependencies, so devDependencies are deleted first.
RUN npm pkg delete devDependencies \
 && npm sbom --sbom-format=cyclonedx --sbom-type=application | node --eval ' \
      const bill = JSON.parse(fs.readFileSync(0, "utf8")); \
      delete bill.serialNumber; \
      delete bill.metadata.timestamp; \
      bill.metadata.component.name = JSON.parse(fs.readFileSync("package.json", "utf8")).name; \
      console.log(JSON.stringify(bill, null, 2));' >sbom.cdx.json
# Half of the packages' files are only for development: declarations, sources, maps, tests and documents.
RUN rm node_modules/.package-lock.json \
 && find /app/node_modules -type f -regex '.*\.\([cm]?ts\|map\)' -delete \
 && find /app/node_modules -type d -regex '.*/node_modules/\(@[^/]*/\)?[^/]*/\(tests?\|docs\|benchmarks?\|examples\)' \
      -prune -exec rm -r '{}' +

FROM ${BUILD_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Without install scripts: they would fetch the Node of development.
RUN npm ci --ignore-scripts
COPY tsconfig.json vite.config.ts vite.sidecar.config.ts ./
COPY src src
RUN npm run build
# V8's compile cache of a start. Node uses it only with the same flags and user.
COPY Dockerfile ./
COPY scripts/bake-compile-cache.ts scripts/
RUN mkdir compile-cache && chown 65532:65532 compile-cache
USER 65532:65532
RUN node scripts/bake-compile-cache.ts /app/compile-cache
USER 0:0
RUN chown -R 0:0 compile-cache
# The command line as `sidecar`. The base may have no shell, so that the kernel has to find Node.
ARG NODE_DIRECTORY=/usr/local/bin
RUN mkdir bin && printf '#!%s/node\nimport "../dist/main.js";\n' "${NODE_DIRECTORY}" >bin/sidecar && chmod 755 bin/sidecar

FROM ${BASE_IMAGE}
ARG NODE_DIRECTORY=/usr/local/bin
ARG REVISION
LABEL org.opencontainers.image.title="envelope-sidecar" \
      org.opencontainers.image.description="An encryption sidecar for payment APIs" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="MIT"
# `sidecar` and `node` are enough in hooks and by hand. One malloc arena: more of them keep the memory of large bodies.
ENV PATH=/app/bin:${NODE_DIRECTORY}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    NODE_ENV=production \
    SIDECAR_REVISION=${REVISION} \
    SIDECAR_CONFIG=/etc/envelope-sidecar/sidecar.yaml \
    NODE_COMPILE_CACHE=/app/compile-cache \
    MALLOC_ARENA_MAX=1
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY --from=dependencies /app/sbom.cdx.json ./
COPY package.json LICENSE ./
COPY config/sidecar.schema.json config/accounts.schema.json config/
COPY config/new config/new
COPY --from=build /app/bin bin
COPY --from=build /app/dist dist
COPY --from=build /app/compile-cache compile-cache
# A number, so that Kubernetes can verify that it is not root.
USER 65532:65532
EXPOSE 8080 9090
# The heap follows the container's memory limit. Bodies are outside the heap, so that most of the memory is left for them.
# From 64 MiB on V8 collects all of it: with a smaller start, large bodies make it collect for every request.
# The memory of the thread that loads the configuration is returned to the system and not kept for the next thread.
ENTRYPOINT ["node", "--disable-sigusr1", "--disable-warning=DEP0060", "--max-semi-space-size=16", "--initial-heap-size=64", "--max-old-space-size-percentage=35", "--no-memory-pool-share-memory-on-teardown", "/app/dist/main.js"]
CMD ["serve"]
