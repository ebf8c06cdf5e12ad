package nodefleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/autoscaler/provider/clusterapi"
	"supercargo.dev/supercargo/test/kit"
)

// busy is an API server that rejects a third of the writes: it answers with a conflict, or that it is
// overloaded.
type busy struct {
	before func() // called before half of the changes of replicas

	mu                      sync.Mutex
	random                  *rand.Rand
	writes, refused, forced int
}

// lot draws the outcome of a write.
func (a *busy) lot(r *http.Request) (code int, force bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes++
	switch a.random.IntN(6) {
	case 0:
		code = http.StatusConflict
	case 1:
		code = http.StatusTooManyRequests
	default:
		if force = scales(r) && a.random.IntN(2) == 0; force {
			a.forced++
		}
		return 0, force
	}
	a.refused++
	return code, false
}

func (a *busy) wrap(next http.RoundTripper) http.RoundTripper {
	return kit.Transport(func(r *http.Request) (*http.Response, error) {
		if !kit.Writes(r) {
			return next.RoundTrip(r)
		}
		switch code, force := a.lot(r); {
		case code == http.StatusConflict:
			return answer(r, code, "Conflict"), nil
		case code == http.StatusTooManyRequests:
			return answer(r, code, "TooManyRequests"), nil
		case force:
			a.before() // the API server itself rejects this one
		}
		return next.RoundTrip(r)
	})
}

func answer(r *http.Request, code int, reason string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":"this is a test"}`, reason, code)
	header := http.Header{"Content-Type": {"application/json"}}
	if code == http.StatusTooManyRequests {
		header.Set("Retry-After", "1")
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

func TestConflictsAndABusyAPIServerLeadToTheSameEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, "busy")
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var touched atomic.Int64
	touch := func() {
		for _, flavor := range []string{"large", "medium"} {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, touched.Add(1))
			if err := b.tryPatchDeployment(ctx, flavor, patch); err != nil && ctx.Err() == nil {
				t.Errorf("touch MachineDeployment %s: %v", flavor, err)
			}
		}
	}
	const seed = 1
	server := &busy{before: touch, random: rand.New(rand.NewPCG(seed, seed))}
	growAndShrink(b, b.movable, func() {
		done := make(chan struct{})
		go func() { // another client changes the MachineDeployments all the time
			defer close(done)
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(200 * time.Millisecond):
					touch()
				}
			}
		}()
		t.Cleanup(func() { cancel(); <-done })
		b.autoscale(func(o *app.Options) { o.Config.Wrap(server.wrap) })
	})
	server.mu.Lock()
	defer server.mu.Unlock()
	t.Logf("of %d writes %d were refused and %d overtaken; MachineDeployments were touched %d times", server.writes, server.refused, server.forced, touched.Load())
	if server.refused < 3 || touched.Load() < 10 {
		t.Error("too little for a test")
	}
}

// TestWritesToOtherFieldsDoNotHoldUpPurchases changes an annotation of the MachineDeployment just before each
// change of its replicas, because the controllers of cluster-api may change its status at any time.
func TestWritesToOtherFieldsDoNotHoldUpPurchases(t *testing.T) {
	t.Parallel()
	b := newBench(t, "touched")
	b.flavor("small", "2", "4Gi", "0.10")
	b.pods("p", 2, "1900m", "1Gi")
	b.wait(2)
	b.fleet("all")
	var touched, refused atomic.Int64
	b.autoscale(func(o *app.Options) {
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return kit.Transport(func(r *http.Request) (*http.Response, error) {
				if !scales(r) {
					return next.RoundTrip(r)
				}
				patch := fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, touched.Add(1))
				if err := b.tryPatchDeployment(r.Context(), "small", patch); err != nil {
					return nil, err
				}
				answer, err := next.RoundTrip(r)
				if err == nil && answer.StatusCode != http.StatusOK {
					refused.Add(1)
				}
				return answer, err
			})
		})
	})
	b.Runs(2)
	b.removePods()
	b.becomes(map[string]int{})
	if touched.Load() < 2 || refused.Load() > 0 {
		t.Errorf("of %d changes of the number of replicas the API server refused %d, want none", touched.Load(), refused.Load())
	}
}

// TestTheNumberOfReplicasIsChangedOnlyFromWhatItWas checks that a repeated change has no effect, and that
// changes of other clients stay.
func TestTheNumberOfReplicasIsChangedOnlyFromWhatItWas(t *testing.T) {
	t.Parallel()
	b := newBench(t, "compare")
	b.flavor("small", "2", "4Gi", "0.10", comesAfter(5*time.Minute))
	scheme := runtime.NewScheme()
	if err := clusterapi.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(b.Site.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	p := clusterapi.New(c, c, clusterapi.Fleet{Spec: v1alpha1.ClusterAPIFlavors{Namespace: metav1.NamespaceDefault, Names: []string{"compare-small"}}}, nil, clusterapi.NewTemplates(clock.RealClock{}))
	for _, step := range []struct {
		from, to, left int
		changed        bool
	}{
		{0, 2, 2, false},
		{0, 2, 2, false},
		{0, 1, 2, true},
		{1, 3, 2, true},
		{2, 3, 3, false},
	} {
		err := p.Buy(t.Context(), "i", "compare-small", step.from, step.to)
		if is := errors.Is(err, provider.ErrChanged); is != step.changed || err != nil && !is {
			t.Errorf("from %d to %d: error %v, want ErrChanged %v", step.from, step.to, err, step.changed)
		}
		if got := b.replicas()["small"]; got != step.left {
			t.Errorf("from %d to %d: %d replicas, want %d", step.from, step.to, got, step.left)
		}
	}
}
