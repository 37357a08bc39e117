# The image of all federator processes. Not built by the tests (they need no container engine); linted by hadolint.
# Pin both stages by digest where you build it: --build-arg PYTHON=python@sha256:...
ARG PYTHON=python:3.11-slim
FROM ${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml README.md ./
COPY federator federator
RUN python -m venv /opt/federator && /opt/federator/bin/pip install --no-cache-dir --disable-pip-version-check .

FROM ${PYTHON}
COPY --from=build /opt/federator /opt/federator
ENV PATH=/opt/federator/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080 8444
ENTRYPOINT ["federator"]
CMD ["--help"]
