# The sidecar's image: its compiled code and the packages it runs on, over an image that has Node. docs/operators.md tells
# how to pin the base and how to use one without a shell.
ARG BUILD_IMAGE=node:26-bookworm-slim
ARG BASE_IMAGE=node:26-bookworm-slim

FROM ${BUILD_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# Without install scripts: the only one fetches the Node of development.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src src
# A third of what packages ship are declarations, TypeScript sources and source maps, which Node does not read.
RUN npm run build \
 && npm prune --omit=dev --ignore-scripts \
 && find node_modules -type f -regex '.*\.\([cm]?ts\|map\)' -delete

FROM ${BASE_IMAGE}
ARG NODE_DIRECTORY=/usr/local/bin
ARG REVISION
LABEL org.opencontainers.image.title="envelope-sidecar" \
      org.opencontainers.image.description="An encryption sidecar for payment APIs" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="MIT"
# Wherever the base keeps Node, its name is enough: here, in preStop hooks and for commands by hand.
ENV PATH=${NODE_DIRECTORY}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    NODE_ENV=production
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/package.json ./
COPY --from=build /app/dist dist
# A number, or Kubernetes cannot tell that it is not root.
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["node", "/app/dist/main.js"]
CMD ["serve", "--config", "/etc/envelope-sidecar/sidecar.yaml"]
