package nodefleet

import (
	"net/http"
	"strings"
)

// view restricts a client to the bench.
func (b *bench) view() func(http.RoundTripper) http.RoundTripper {
	return b.View("/api/v1/pods", "/apis/apps/v1/daemonsets")
}

// closes reports whether a request changes a node.
func closes(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.HasPrefix(r.URL.Path, "/api/v1/nodes/")
}
