# The backend in a Triton server.
#
#   docker build --target gpu --tag tlaloc-triton:gpu .    NVIDIA's server, PJRT plugin for CUDA
#   docker build --target cpu --tag tlaloc-triton:cpu .    a server of a few hundred MB, plugin for CPUs
#
#   scripts/serve.sh --docker tlaloc-triton:cpu --repository models

ARG RUST_VERSION=1.95.0
ARG TRITON_VERSION=25.11
ARG DEBIAN=bookworm

FROM rust:${RUST_VERSION}-slim-${DEBIAN} AS build
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN scripts/package.sh --out /package \
 && mkdir /tlaloc \
 && tar -xzf /package/*.tar.gz -C /tlaloc --strip-components 1

# What the images run beside the backend, pinned by version and SHA-256.
FROM debian:${DEBIAN}-slim AS fetch
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3-pip python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY scripts scripts

FROM fetch AS runtime-cpu
RUN scripts/setup.sh --runtime /runtime

FROM fetch AS runtime-cuda
RUN scripts/setup.sh --cuda-plugin /runtime

FROM debian:${DEBIAN}-slim AS cpu
RUN apt-get update \
 && apt-get install -y --no-install-recommends libstdc++6 zlib1g \
 && rm -rf /var/lib/apt/lists/*
COPY --from=runtime-cpu /runtime/server /opt/tritonserver/wheel
COPY --from=runtime-cpu /runtime/plugin /opt/pjrt
COPY --from=build /tlaloc/backends /opt/tritonserver/backends
COPY --from=build /tlaloc/bin /usr/local/bin
COPY --from=build /tlaloc/licences /tlaloc/LICENSE /usr/share/doc/tlaloc-triton/
ENV PATH=/opt/tritonserver/wheel/pytriton/tritonserver/bin:$PATH \
    TLALOC_PJRT_PLUGIN_PATH=/opt/pjrt/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so
EXPOSE 8000 8001 8002
CMD ["tritonserver", "--model-repository", "/models"]

FROM nvcr.io/nvidia/tritonserver:${TRITON_VERSION}-py3 AS gpu
COPY --from=runtime-cuda /runtime/plugin /opt/pjrt
COPY --from=build /tlaloc/backends/tlaloc /opt/tritonserver/backends/tlaloc
COPY --from=build /tlaloc/bin /usr/local/bin
COPY --from=build /tlaloc/licences /tlaloc/LICENSE /usr/share/doc/tlaloc-triton/
ENV TLALOC_PJRT_PLUGIN_PATH=/opt/pjrt/jax_plugins/xla_cuda13/xla_cuda_plugin.so
EXPOSE 8000 8001 8002
CMD ["tritonserver", "--model-repository", "/models"]
