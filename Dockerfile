# The image of all federator processes. Not built by the tests (they need no container engine); linted by hadolint.
# Pin both stages by digest where you build it: --build-arg PYTHON=python@sha256:...
ARG PYTHON=python:3.11-slim
FROM ${PYTHON} AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY deploy/locks deploy/locks
# Everything comes by hash (`make lock` writes the locks): what builds the wheel is not in the image, pip neither.
RUN python -m venv /opt/build && /opt/build/bin/pip install --require-hashes -r deploy/locks/build.txt \
 && python -m venv /opt/federator && /opt/federator/bin/pip install --require-hashes -r deploy/locks/run.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY federator federator
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation -w /tmp/wheel . \
 && /opt/federator/bin/pip install --no-deps --no-index /tmp/wheel/*.whl \
 && /opt/federator/bin/python -m pip uninstall -y pip

FROM ${PYTHON}
COPY --from=build /opt/federator /opt/federator
ENV PATH=/opt/federator/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080 8444
ENTRYPOINT ["federator"]
CMD ["--help"]
