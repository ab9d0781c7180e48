#!/bin/bash
# A job of an array. It runs lines of the file `commands` side by side, each with its own log and exit code.
# Before the time limit Slurm sends SIGTERM: the runs save their state, and the job waits in the queue again.
# usage: array.sh FOLDER RUNS_PER_JOB
folder=$1 each=$2
me=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
declare -A pids told
signals=0

state() { timeout 10 squeue --noheader --jobs="$me" --format=%T; }

wanted() { [[ -e $folder/$1.stop ]] && cat "$folder/$1.stop"; }  # the signal that the submitting command asks for

stop() {  # the runs that the submitting command asks for
    ls "$folder" >/dev/null  # so that a shared file system shows new files
    ((++signals))
    local n number
    for n in "${!pids[@]}"; do
        number=$(wanted "$n")
        if [[ $number && $number != "${told[$n]}" ]]; then
            told[$n]=$number
            kill -s "$number" "${pids[$n]}" 2>/dev/null
        fi
    done
}

save() {  # every run
    ((++signals))
    [[ $(state) == COMPLETING ]] && return  # Slurm cancels or preempts the job, and has signalled every process
    local n
    for n in "${!pids[@]}"; do
        if [[ ! ${told[$n]} ]]; then
            told[$n]=" "
            kill -s TERM "${pids[$n]}" 2>/dev/null
        fi
    done
}

ended() { echo "$2" >"$folder/$1.code.new" && mv "$folder/$1.code.new" "$folder/$1.code"; }

trap stop USR1
trap save TERM
for ((n = SLURM_ARRAY_TASK_ID * each; n < (SLURM_ARRAY_TASK_ID + 1) * each; n++)); do
    command=$(sed -n "$((n + 1))p" "$folder/commands")
    if [[ ! $command || -e $folder/$n.code ]]; then continue; fi
    if [[ $(wanted "$n") ]]; then ended "$n" 143; continue; fi
    echo "$SLURMD_NODENAME" >"$folder/$n.node"
    ISOSCOPE_JOB=$me ISOSCOPE_LOG=$folder/$n.log eval "exec $command" >"$folder/$n.json" 2>>"$folder/$n.log" </dev/null &
    pids[$n]=$!
done
worst=0 left=()
for n in "${!pids[@]}"; do
    until before=$signals; wait "${pids[$n]}"; code=$?; ((signals == before)); do :; done
    if ((code == 143 && signals)) && [[ ! ${told[$n]%% *} ]]; then
        left+=("$n")
    else
        ended "$n" "$code"
        ((code > worst)) && worst=$code
    fi
done
if ((${#left[@]})); then
    now=$(state)  # empty: Slurm does not answer
    [[ $now && $now != RUNNING ]] && exit 143  # cancelled; or preempted, and Slurm puts the job back itself
    for n in "${left[@]}"; do echo "isoscope: job $me waits in the queue again, to resume" >>"$folder/$n.log"; done
    scontrol requeue "$me" && exit 143
    for n in "${left[@]}"; do ended "$n" 143; done
fi
exit "$worst"
