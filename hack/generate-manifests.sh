#!/usr/bin/env bash
# Renders the parts under manifests/ from the chart in manifests/helm/supercargo, and copies the CRDs and the
# scheduler's configurations into the charts: generate-manifests.sh HELM
set -euo pipefail
helm=$(realpath "$1")
cd "$(dirname "$0")/../manifests"

rm -rf helm/supercargo-crds/crd helm/supercargo/scheduler
mkdir -p helm/supercargo-crds/crd helm/supercargo/scheduler
cp crd/supercargo.dev_*.yaml helm/supercargo-crds/crd/
cp scheduler/config/{second-scheduler,kube-scheduler}.yaml scheduler/replace/kube-scheduler+json.yaml helm/supercargo/scheduler/

rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT
# manifests/autoscaler has no metrics adapter configured. manifests/adapter/autoscaler adds it.
for adapter in false true; do
	"$helm" template supercargo helm/supercargo --namespace supercargo-system --values helm/kustomize-values.yaml \
		--set "metricsAdapter.enabled=$adapter" --output-dir "$rendered/$adapter" >/dev/null
done
# manifests/network has the policies of all parts. The addresses of a cloud are the user's.
"$helm" template supercargo helm/supercargo --namespace supercargo-system --values helm/kustomize-values.yaml --output-dir "$rendered/network" \
	--set networkPolicy.enabled=true,metricsAdapter.enabled=true,autoscaler.openstack.enabled=false >/dev/null
# manifests/observe has the chart's defaults.
"$helm" template supercargo helm/supercargo --namespace supercargo-system --set image.repository=registry.invalid/supercargo --output-dir "$rendered/observe" >/dev/null

part() { # part WITH-ADAPTER TEMPLATES FOLDER FILE...
	local from=$rendered/$1/supercargo/templates/$2 to=$3 file
	shift 3
	for file; do
		{
			echo "# Rendered by make generate from the chart in manifests/helm/supercargo: change that."
			sed -e '/^# Source: /d' -e '/^$/d' "$from/$file.yaml" | sed '1{/^---$/d}'
		} >"$to/$file.yaml"
	done
}
for program in autoscaler descheduler; do
	mkdir -p "observe/$program"
	part observe $program observe/$program rbac deployment service disruption
done
part observe descheduler observe/descheduler consolidation
part observe network observe/network policies
part network network network policies
part false autoscaler autoscaler rbac deployment service disruption
part false openstack openstack rbac
part false karpenter karpenter rbac
part false catalogue catalogue rbac
part false workers workers rbac
part false descheduler descheduler rbac policy consolidation deployment service disruption
part false evictions evictions/base rbac webhook deployment disruption
part false agent agent namespace rbac policy daemonset
part false meter meter namespace rbac daemonset
part false dashboard dashboard/server rbac deployment service disruption
part false scheduler/second scheduler/second rbac deployment disruption
part false scheduler/replace scheduler/replace rbac
part true adapter adapter/server rbac configuration deployment disruption service apiservices

# The permissions that each action brings, alone or with what it requires, for tests that compare them with requests.
modes=../test/kit/rights/modes
rm -rf "$modes" && mkdir -p "$modes"
rights() { # rights MODE VALUE...
	local mode=$1
	shift
	local values=("${@/%/.enabled=true}") program=${1%%.*}
	"$helm" template supercargo helm/supercargo --namespace supercargo-system --set image.repository=registry.invalid/supercargo,autoscaler.enabled=false,descheduler.enabled=false \
		--set "$program.enabled=true" --set "$(IFS=,; echo "${values[*]}")" --output-dir "$rendered/modes/$mode" >/dev/null
	{
		echo "# Rendered by make generate from the chart with ${values[*]}."
		find "$rendered/modes/$mode" -name rbac.yaml | sort | xargs sed -e '/^# Source: /d' -e '/^ *#/d' -e '/^$/d' -e 's/ *# .*//'
	} >"$modes/$mode.yaml"
}
rights machines autoscaler.machines autoscaler.catalogue
rights services autoscaler.services
rights workers autoscaler.workers
rights migrations descheduler.migrations
rights consolidation descheduler.migrations descheduler.consolidation
rights probing descheduler.probing nodeMeter
