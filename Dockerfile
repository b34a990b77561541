# One image for each part: docker build --target control-plane | gateway | upstream, and example-setup, -go, -java or -node. All
# run as the user node (uid 1000), so that the control plane and the gateways can share the file with the gateway token, and the
# examples that with their caller token.

# By exact version, the one that package-lock.json has for everybody else. A digest is stricter still; your registry tells it
# (docker buildx imagetools inspect NAME), and --build-arg NODE_IMAGE=node@sha256:… takes it.
ARG NODE_IMAGE=node:24.21.0-bookworm-slim

FROM ${NODE_IMAGE} AS dependencies
WORKDIR /sluice
COPY package.json package-lock.json ./
COPY limiter/package.json limiter/
COPY gateway/package.json gateway/
COPY control-plane/package.json control-plane/
COPY console/package.json console/
COPY clients/typescript/package.json clients/typescript/
COPY rls/package.json rls/

# What is optional is Node, which this image has, and native parts of tools that build nothing here.
FROM dependencies AS build
RUN npm ci --omit=optional --ignore-scripts --no-audit --no-fund
COPY tsconfig.base.json ./
COPY limiter limiter
COPY gateway gateway
RUN node gateway/build/build.ts

# What builds the console is optional too: one program for each kind of machine.
FROM dependencies AS build-console
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.base.json ./
COPY limiter limiter
COPY console console
RUN node console/build/build.ts

FROM dependencies AS production-dependencies
RUN npm ci --workspace control-plane --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM ${NODE_IMAGE} AS runtime
ENV NODE_ENV=production SLUICE_DATA_DIR=/data SLUICE_GATEWAY_TOKEN_FILE=/shared/gateway-token
# In the last one, docker-compose.yml has the password of its Redis, whose user is another.
RUN install -d -o node -g node -m 0700 /data /shared && install -d -o node -g node -m 0755 /redis-password
WORKDIR /sluice
COPY package.json ./
COPY launch launch
COPY limiter/src/settings limiter/src/settings

FROM runtime AS upstream
ENV SLUICE_UPSTREAM_HOST=0.0.0.0
USER node
EXPOSE 8082
CMD ["node", "launch/demo-upstream.ts"]

FROM runtime AS control-plane
ENV SLUICE_CONTROL_HOST=0.0.0.0
COPY --from=production-dependencies /sluice/node_modules node_modules
COPY limiter limiter
COPY control-plane control-plane
# What gateways run in Redis, which the control plane keeps there.
COPY --from=build /sluice/gateway/dist/sluice_redis_scripts.json gateway/dist/
COPY --from=build-console /sluice/console/dist console/dist
USER node
EXPOSE 8081
VOLUME ["/data", "/shared"]
CMD ["node", "launch/control-plane.ts"]

FROM runtime AS example-setup
RUN install -d -o node -g node -m 0700 /example-token
ENV SLUICE_TOKEN_FILE=/example-token/token
COPY examples/setup.ts examples/sms-vendor.json examples/
USER node
VOLUME /example-token
CMD ["node", "examples/setup.ts"]

FROM ${NODE_IMAGE} AS example
RUN install -d -o node -g node -m 0700 /example-token
ENV SLUICE_TOKEN_FILE=/example-token/token
WORKDIR /example

FROM ${NODE_IMAGE} AS build-example-go
RUN apt-get update && apt-get install -y --no-install-recommends golang-go && rm -rf /var/lib/apt/lists/*
WORKDIR /sluice
COPY clients/go clients/go
COPY examples/go examples/go
RUN cd examples/go && CGO_ENABLED=0 go build -o /service .

FROM example AS example-go
COPY --from=build-example-go /service ./
USER node
CMD ["./service"]

FROM ${NODE_IMAGE} AS build-example-java
RUN apt-get update && apt-get install -y --no-install-recommends default-jdk-headless && rm -rf /var/lib/apt/lists/*
WORKDIR /sluice
COPY clients/java/src/main/java clients/java/src/main/java
COPY examples/java examples/java
RUN javac -encoding UTF-8 -d /classes $(find clients/java/src/main/java -name '*.java') examples/java/Service.java

FROM example AS example-java
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless && rm -rf /var/lib/apt/lists/*
COPY --from=build-example-java /classes classes
USER node
CMD ["java", "-cp", "classes", "Service"]

FROM build AS build-example-node
COPY clients/typescript clients/typescript
RUN npm run build --workspace sluice-client

FROM example AS example-node
COPY clients/typescript/package.json node_modules/sluice-client/
COPY --from=build-example-node /sluice/clients/typescript/dist node_modules/sluice-client/dist
COPY examples/node/service.mjs ./
USER node
CMD ["node", "service.mjs"]

FROM runtime AS gateway
RUN apt-get update \
  && apt-get install -y --no-install-recommends nginx libnginx-mod-http-lua lua-resty-core lua-resty-lrucache \
    lua-nginx-redis lua-nginx-websocket lua-nginx-string lua-cjson \
  && rm -rf /var/lib/apt/lists/*
ENV SLUICE_GATEWAY_HOST=0.0.0.0 SLUICE_GATEWAY_PRIVATE_HOST=0.0.0.0
COPY nginx.conf ./
COPY --from=build /sluice/gateway/dist gateway/dist
USER node
EXPOSE 8080 8079
VOLUME ["/data", "/shared"]
CMD ["node", "launch/gateway.ts"]
