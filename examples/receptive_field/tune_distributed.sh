#!/usr/bin/env bash
# One search in several processes: a chief, which decides, and workers.
#
#     examples/receptive_field/tune_distributed.sh [COMMAND...]
#
# COMMAND is any program that searches with KerasTuner; by default
# `python -m examples.receptive_field.tune segmentation`. Each process gets it
# with the environment that KerasTuner reads. From the environment of this
# script come WORKERS (2), RESTARTS (3, of each worker), and the address
# KERASTUNER_ORACLE_IP (127.0.0.1) and KERASTUNER_ORACLE_PORT (8471).
#
# A worker that is killed is started again under its name, and so gets back
# the trial it had: the chief keeps it for that name alone, and would wait for
# it forever. If the chief ends early, all end; started again, the search goes
# on, finished trials kept. The chief ends up to 20 seconds after the workers.
set -u
export KERASTUNER_ORACLE_IP=${KERASTUNER_ORACLE_IP:-127.0.0.1}
export KERASTUNER_ORACLE_PORT=${KERASTUNER_ORACLE_PORT:-8471}
export TF_NUM_INTRAOP_THREADS=${TF_NUM_INTRAOP_THREADS:-1}
[ $# -gt 0 ] || set -- python -m examples.receptive_field.tune segmentation

work() {
    local name=$1 child status attempt
    shift
    trap 'kill "$child" 2>/dev/null; wait "$child"; exit 1' TERM
    for ((attempt = 0; attempt <= ${RESTARTS:-3}; attempt++)); do
        KERASTUNER_TUNER_ID=$name "$@" &
        child=$!
        wait "$child"
        status=$?
        [ "$status" -ne 0 ] || return 0
        kill -0 "$chief" 2>/dev/null || return 1
        echo "$name ended early, with status $status." >&2
    done
    echo "$name is given up, and so is the search. Start it again." >&2
    kill "$chief"
}

KERASTUNER_TUNER_ID=chief "$@" &
chief=$!
workers=()
for ((number = 0; number < ${WORKERS:-2}; number++)); do
    work "worker$number" "$@" &
    workers+=("$!")
done
trap 'kill "$chief" "${workers[@]}" 2>/dev/null' EXIT
trap 'exit 130' INT TERM

wait "$chief"
status=$?
if [ "$status" -ne 0 ]; then
    echo "The chief ended with status $status; finished trials are kept." >&2
    kill "${workers[@]}" 2>/dev/null
fi
wait
exit "$status"
