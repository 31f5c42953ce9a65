# deltad in an image that holds one static binary, the certificates it needs to
# reach stores over TLS, and two directories it may write to. No shell, no
# package manager, no user but 65532. docs/deploying.md says how to run it.
#
#   docker build -t deltad --build-arg VERSION=0.1.0 .

# The compiler runs where the build runs and writes for where the image will.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
WORKDIR /src
# Modules change less often than code: a layer of their own.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
# .dockerignore lists what belongs to the binary and leaves out the rest.
COPY . .
ARG TARGETOS
ARG TARGETARCH
# Without VERSION the one in the source stays.
ARG VERSION=
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH GOFLAGS=-buildvcs=false GOTOOLCHAIN=local \
    go build -trimpath -ldflags "-s -w ${VERSION:+-X github.com/deltad/deltad/cmd/deltad/app.Version=$VERSION}" -o /image/deltad ./cmd/deltad
# /tmp (or TMPDIR, or cache.dir) takes what does not fit the memory, such as
# output files of more than 8 MiB until they are uploaded; /var/lib/deltad is
# for a SQLite state and for file:// outputs.
RUN mkdir -p /image/tmp /image/etc/deltad /image/etc/ssl/certs /image/var/lib /state/deltad \
    && chmod 1777 /image/tmp \
    && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/

FROM scratch
ARG VERSION=
LABEL org.opencontainers.image.title="deltad" \
      org.opencontainers.image.description="Keeps a delta index fresh, one bounded step at a time" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"
COPY --from=build /image /
COPY --from=build --chown=65532:65532 /state /var/lib
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /var/lib/deltad
EXPOSE 8480
# The first SIGTERM drains for up to 25 s. Docker kills after 10 s unless told
# otherwise: docker run --stop-timeout 45.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s --retries=3 CMD ["/deltad", "health", "-c", "/etc/deltad/deltad.yaml"]
ENTRYPOINT ["/deltad"]
CMD ["run", "-c", "/etc/deltad/deltad.yaml"]
