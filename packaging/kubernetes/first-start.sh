#!/bin/sh
# Prints the two ConfigMaps of a new cluster: kubectl apply -f - reads them. Run it once: each run names another cluster.
#
#   sh packaging/kubernetes/first-start.sh kafka | kubectl apply --namespace kafka -f -
#
# When the three nodes are ready, delete the second one, so that a node with a new volume joins instead of starting anew:
#
#   kubectl delete configmap barnabas-first-start --namespace kafka
set -eu

if [ $# -ne 1 ]; then
  echo "usage: first-start.sh NAMESPACE (where the nodes will run; their names contain it)" >&2
  exit 2
fi
command -v barnabas >/dev/null || { echo "first-start.sh: barnabas is not on PATH; install it, or use its image" >&2; exit 1; }

controllers=""
for node in 0 1 2; do
  controllers="$controllers${controllers:+,}$node@barnabas-$node.barnabas-nodes.$1.svc:9093:$(barnabas storage random-uuid)"
done
cat <<END
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: barnabas-cluster
data:
  cluster-id: "$(barnabas storage random-uuid)"
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: barnabas-first-start
data:
  initial-controllers: "$controllers"
END
