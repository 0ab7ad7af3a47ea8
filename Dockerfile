# docker build -t perfvec . && docker run --rm -v "$PWD:/work" perfvec predict --uarch zen4 -- /bin/ls
FROM python:3.12-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
# gcc compiles the QEMU plug-in and the model's kernels on first use.
RUN apt-get update && apt-get install -y --no-install-recommends qemu-user gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
COPY constraints.txt /wheels/
RUN pip install --no-cache-dir torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu \
    && pip install --no-cache-dir -c /wheels/constraints.txt /wheels/*.whl && rm -rf /wheels
WORKDIR /work
ENTRYPOINT ["perfvec"]
