package nodefleet

import (
	"net/http"
	"strings"

	"supercargo.dev/supercargo/test/kit"
)

// benchLabel is a label on the nodes, fleets and MachineDeployments of a bench, with its name as value.
const benchLabel = "bench"

// view restricts a client to one bench.
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
