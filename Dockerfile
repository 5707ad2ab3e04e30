# One image for every role: `docker run beatkeeper api|sweeper|operator|migrate`. Node runs the TypeScript as it is.
FROM node:24-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund

FROM packages AS dashboard
COPY tsconfig.json ./
COPY src src
RUN npm run build:dashboard

FROM packages AS dependencies
# What only editors and debuggers read is a third of it.
RUN npm prune --omit=dev --ignore-scripts --no-audit --no-fund \
 && find node_modules -type f \( -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.map' -o -iname '*.md' \) -delete \
 && find node_modules -type d -empty -delete

FROM node:24-bookworm-slim
# glibc keeps what a burst used in as many arenas as there are threads; two serve as well. The new space of the heap has one
# size wherever the image runs: left alone, Node makes it between 1 and 64 MiB, by the memory of the container.
ENV NODE_ENV=production MALLOC_ARENA_MAX=2 NODE_OPTIONS=--max-semi-space-size=32
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY package.json LICENSE ./
COPY crds crds
COPY src src
COPY --from=dashboard /app/dist dist
# The plugin `kubectl beat`, by the Node of the image: the one file with a Node inside would double the image.
RUN ln -s /app/src/kubectl/main.ts /usr/local/bin/kubectl-beat
USER 1000:1000
EXPOSE 8080 8081
ENTRYPOINT ["node", "src/main.ts"]
