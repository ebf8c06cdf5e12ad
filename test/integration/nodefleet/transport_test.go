package nodefleet

import (
	"net/http"
	"strings"

	"supercargo.dev/supercargo/test/kit"
)

// benchLabel is on the nodes, fleets and MachineDeployments of a bench and has its
// name.
const benchLabel = "bench"

// view shows a client no more of the cluster than one bench.
func view(bench string) func(http.RoundTripper) http.RoundTripper {
	return kit.View(map[string]kit.Selector{
		"/apis/supercargo.dev/v1alpha1/nodefleets": {Parameter: "labelSelector", Value: benchLabel + "=" + bench},
		"/api/v1/nodes":            {Parameter: "labelSelector", Value: benchLabel + "=" + bench},
		"/api/v1/pods":             {Parameter: "fieldSelector", Value: "metadata.namespace=" + bench},
		"/apis/apps/v1/daemonsets": {Parameter: "fieldSelector", Value: "metadata.namespace=" + bench},
	})
}

// closes reports whether a request changes a node.
func closes(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/api/v1/nodes/")
}
