# docker build -t perfvec . && docker run --rm -v "$PWD:/work" perfvec predict --uarch zen4 -- /bin/ls
# Behind mirrors: --build-arg TORCH_INDEX=… --build-arg PIP_INDEX_URL=…
FROM python:3.12-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
ARG PIP_INDEX_URL
WORKDIR /src
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
# gcc compiles the QEMU plug-in on first use.
RUN apt-get update && apt-get install -y --no-install-recommends qemu-user gcc libc6-dev && rm -rf /var/lib/apt/lists/*
ARG PIP_INDEX_URL
# PyTorch, in a layer that a change of the package leaves as it is.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY constraints.txt /tmp/
RUN pip install --no-cache-dir -c /tmp/constraints.txt torch --index-url "$TORCH_INDEX"
COPY --from=build /wheels /tmp/wheels
RUN pip install --no-cache-dir -c /tmp/constraints.txt /tmp/wheels/*.whl && rm -r /tmp/wheels
# What is compiled on first use is compiled here, and any user of a container (--user) can read it and add to it.
ENV NUMBA_CACHE_DIR=/cache/numba MPLCONFIGDIR=/cache/matplotlib
RUN perfvec doctor && mkdir -p /cache/matplotlib && chmod -R a+rwX /cache
WORKDIR /work
ENTRYPOINT ["perfvec"]
