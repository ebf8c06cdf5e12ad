package kit

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"supercargo.dev/supercargo/test/kit/rights"
)

// Ledger records the requests of a client: all by verb and resource, the writes, and those that were forbidden.
type Ledger struct {
	mu               sync.Mutex
	asked            map[rights.Request]int
	written, forbade []string
}

// resolve resolves requests as the API server does.
var resolve = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

// Wrap is an argument for rest.Config.Wrap.
func (l *Ledger) Wrap(next http.RoundTripper) http.RoundTripper {
	return Transport(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ask(r)
		if r.Method != http.MethodGet {
			l.written = append(l.written, r.Method+" "+r.URL.Path)
		}
		if err == nil && response.StatusCode == http.StatusForbidden {
			l.forbade = append(l.forbade, r.Method+" "+r.URL.Path)
		}
		return response, err
	})
}

func (l *Ledger) ask(r *http.Request) {
	if l.asked == nil {
		l.asked = map[rights.Request]int{}
	}
	info, err := resolve.NewRequestInfo(r)
	if err != nil {
		l.asked[rights.Request{Verb: r.Method, Path: fmt.Sprintf("%s, which is no request: %v", r.URL.Path, err)}]++
		return
	}
	if !info.IsResourceRequest {
		l.asked[rights.Request{Verb: info.Verb, Path: info.Path}]++
		return
	}
	asked := rights.Request{Verb: info.Verb, Group: info.APIGroup, Resource: info.Resource, Namespace: info.Namespace, Name: info.Name}
	if info.Subresource != "" {
		asked.Resource += "/" + info.Subresource
	}
	l.asked[asked]++
}

// Read returns the writes and the forbidden requests so far.
func (l *Ledger) Read() (written, forbade []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.written), slices.Clone(l.forbade)
}

// FitsMode fails a test unless the requests so far are those that the chart permits to an account in a mode of
// rights.Modes, and used all writes that it permits, but for those of which package rights has a reason. It compares with
// the rendered roles, and not with those of the API server, which tests may share. Requests to API groups that only a
// test has do not count.
func (l *Ledger) FitsMode(t testing.TB, mode, account string, groups ...string) {
	t.Helper()
	l.FitsModeBeside(t, mode, account, nil, groups...)
}

// FitsModeBeside is FitsMode for an account that has other roles beside those of the mode. What these permit does not count.
func (l *Ledger) FitsModeBeside(t testing.TB, mode, account string, beside []*rights.Roles, groups ...string) {
	t.Helper()
	l.mu.Lock()
	asked := maps.Clone(l.asked)
	l.mu.Unlock()
	maps.DeleteFunc(asked, func(r rights.Request, _ int) bool { return slices.Contains(groups, r.Group) })
	faults, err := rights.Faults(mode, ServiceAccount("supercargo-system", account).UserName, asked, beside...)
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) > 0 {
		t.Errorf("mode %s:\n%s", mode, strings.Join(faults, "\n"))
	}
}
