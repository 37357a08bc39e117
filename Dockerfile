# The image of all federator processes. `make soak` builds and runs it where buildah can be had (tests/e2e/test_image.py).
# Pin the base by digest where you build it: --build-arg PYTHON=python@sha256:...
ARG PYTHON=python:3.11-slim
FROM ${PYTHON} AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_COMPILE=1
COPY deploy/locks deploy/locks
# Everything comes by hash (`make lock` writes the locks): what builds the wheel is not in the image, pip neither.
RUN python3 -m venv /opt/build && /opt/build/bin/pip install --require-hashes -r deploy/locks/build.txt \
 && python3 -m venv /opt/federator && /opt/federator/bin/pip install --require-hashes -r deploy/locks/run.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY docs/operating docs/operating
COPY federator federator
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation -w /tmp/wheel . \
 && /opt/federator/bin/pip install --no-deps --no-index /tmp/wheel/*.whl \
 && /opt/federator/bin/python -m pip uninstall -y pip

# What only installs, compiles or tests goes, from the base too.
FROM ${PYTHON} AS slim
COPY --from=build /opt/federator /opt/federator
RUN rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/share/python-wheels \
 && find /usr /opt -depth -type d \( -name __pycache__ -o -name ensurepip \
      -o -path '*-packages/*' \( -name tests -o -name pip -o -name 'pip-*' \) \) -exec rm -rf {} + \
 && find /usr -path '*/bin/pip*' -delete

# One layer: what was removed above takes no room in it.
FROM scratch
COPY --from=slim / /
ENV PATH=/opt/federator/bin:/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
WORKDIR /tmp
EXPOSE 8080 8444
ENTRYPOINT ["federator"]
CMD ["--help"]
