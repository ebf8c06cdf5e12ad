package controlplane

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestAnAPIServerIsReadyWhenItHasMadeItsLease uses a fake: a real API server creates the lease at
// about the time when it is ready, so that a missing wait would not be noticed.
func TestAnAPIServerIsReadyWhenItHasMadeItsLease(t *testing.T) {
	const own = "apiserver.kubernetes.io/identity=kube-apiserver"
	for _, tc := range []struct {
		name   string
		health int
		lease  string // its label
		says   string // empty means that it is ready
	}{
		{"it is not well", http.StatusInternalServerError, own, "an error on the server"},
		{"without a lease", http.StatusOK, "", "has not created its Lease"},
		{"with the lease of another", http.StatusOK, "other=one", "has not created its Lease"},
		{"with its own", http.StatusOK, own, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/readyz":
					w.WriteHeader(tc.health)
				case "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases":
					items := ""
					if tc.lease != "" && r.URL.Query().Get("labelSelector") == tc.lease {
						items = `{"metadata": {"name": "apiserver-1"}}`
					}
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1", "items": [%s]}`, items)
				default:
					t.Errorf("asked for %s", r.URL)
				}
			}))
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			err = (&ControlPlane{client: client}).apiServerReady(t.Context())
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it says %v, want %q", err, tc.says)
			}
		})
	}
}
