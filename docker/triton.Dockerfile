# NVIDIA's Triton image with the ladder's two repositories, for one machine with GPUs. See README.md beside this file.

# The one place that names the release of NVIDIA's image. By NVIDIA's compatibility matrix 26.08 holds vLLM 0.27.1 and
# Python 3.12; the engine is written for vLLM 0.23 to 0.32.
ARG TRITON_RELEASE=26.08
FROM nvcr.io/nvidia/tritonserver:${TRITON_RELEASE}-vllm-python-py3 AS triton

# Renders the repositories of one profile. From the same image, so that the lint holds every model.json against the
# vLLM that will read it; in a stage of its own, so that what the command line needs does not mix with what vLLM needs.
FROM triton AS rendered
ARG PROFILE=a100-llama2-7b
WORKDIR /build
COPY tools tools
RUN python3 -m pip install --no-cache-dir --only-binary :all: --target /packages \
        --constraint tools/bootstrap/locks/engine.txt \
        grpcio jinja2 msgspec packaging protobuf pydantic pyyaml rich safetensors tritonclient typer && \
    PYTHONPATH=/packages python3 -m tools.cli render --profile "${PROFILE}" --out /rendered

FROM triton
# Whose backend serves `backend: "vllm"`: ladder (ours) or nvidia (the image's).
ARG BACKEND=ladder
# Engines get the image's library path: here it is theirs as much as the server's.
ENV LADDER_HOME=/workspace/ladder \
    LADDER_ENGINE_PYTHON=python3 \
    LADDER_ENGINE_LIBRARY_PATH=${LD_LIBRARY_PATH} \
    LADDER_SOCKETS=/tmp/ladder \
    HOME=/home/triton-server \
    HF_HUB_OFFLINE=1 \
    VLLM_NO_USAGE_STATS=1
# Paths in model.json are relative to it, whichever backend reads them.
WORKDIR /workspace/ladder
COPY tools tools
COPY --from=rendered /rendered .
# The backend is linked, not copied: it finds its package from where its file lies. pyzmq and msgspec, which it imports,
# and what reads the router's release file, vLLM needs as well: the image has them in the versions that vLLM was built
# with, and the import proves it.
RUN case "${BACKEND}" in \
        ladder) \
            rm -r /opt/tritonserver/backends/vllm && \
            mkdir /opt/tritonserver/backends/vllm && \
            ln -s /workspace/ladder/tools/backends/vllm/model.py /opt/tritonserver/backends/vllm/model.py ;; \
        nvidia) \
            test -f /opt/tritonserver/backends/vllm/model.py ;; \
        *) \
            echo "BACKEND=\"${BACKEND}\" is not known: write ladder or nvidia" >&2; exit 1 ;; \
    esac && \
    "${LADDER_ENGINE_PYTHON}" -c "import msgspec, numpy, pydantic, yaml, zmq" && \
    "${LADDER_ENGINE_PYTHON}" -m compileall -q tools && \
    install --directory --owner=1000 --group=1000 models "${HOME}" "${HOME}/.cache"
# The image's own user "triton-server".
USER 1000:1000
EXPOSE 8000 8001 8002
STOPSIGNAL SIGTERM
# HTTP answers only once every model is loaded. The start period is how long that may take.
HEALTHCHECK --interval=10s --timeout=5s --start-period=15m --retries=3 \
    CMD ["curl", "--fail", "--silent", "--show-error", "--output", "/dev/null", "http://127.0.0.1:8000/v2/health/ready"]
# Control is explicit, so that a model whose engine has been given up can unload itself. The configs are complete;
# completing them again would start every stub twice. Further options of tritonserver go behind the image's name.
ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh", "tritonserver", \
    "--model-repository=/workspace/ladder/model_repository", \
    "--model-repository=/workspace/ladder/ensembles", \
    "--disable-auto-complete-config", \
    "--model-control-mode=explicit", \
    "--load-model=*", \
    "--grpc-header-forward-pattern=(?i)x-ladder-.*", \
    "--exit-timeout-secs=30", \
    "--log-format=ISO8601"]
CMD []
