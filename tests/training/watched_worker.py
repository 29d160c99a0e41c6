"""watched_worker.py <JSON>: a worker that only pretends to train, so that it starts in no time.

The JSON has addresses, index, uses (what it says it would use), start and silence (seconds), and
perhaps stalls_at or fails_at (a step) and steps (default: endless).
"""

import itertools
import json
import sys
import time

from t2t_keras.training.cluster import Cluster
from t2t_keras.training.worker_fault import WorkerError
from t2t_keras.training.worker_meeting import meet_as_chief, meet_chief
from t2t_keras.training.worker_watch import WorkerWatch

case = json.loads(sys.argv[1])
cluster = Cluster(tuple(case["addresses"]), case["index"])
try:
    if cluster.is_chief:
        links = meet_as_chief(cluster, case["uses"], case["start"])
    else:
        links = {0: meet_chief(cluster, case["uses"], case["start"])}
except WorkerError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_status)
watch = WorkerWatch(cluster, links, case["silence"])
if cluster.is_chief:
    watch.tell_checkpoint(7)
else:
    assert watch.told_checkpoint() == 7
for step in itertools.count() if case.get("steps") is None else range(case["steps"]):
    watch.begins(step)
    if step == 0 and cluster.is_chief:
        watch.tell_saved("run/model.ckpt-13")
    if step == 5:
        print("trains", flush=True)
    if step == case.get("stalls_at"):
        time.sleep(1000)
    if step == case.get("fails_at"):
        watch.fail("the disk is full", 2)
        sys.exit(2)
    time.sleep(0.01)
watch.finish()
print("finished")
