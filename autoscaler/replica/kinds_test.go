package replica

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAMissingKindIsSearchedForWhileAPolicyWaitsForItAndNoMoreOftenThanNeeded(t *testing.T) {
	finds, served, watched := 0, map[string]error{}, []string{}
	k := &Kinds{
		known:   map[schema.GroupKind]schema.GroupVersionKind{},
		missing: []schema.GroupResource{schema.ParseGroupResource("as.x"), schema.ParseGroupResource("bs.y")},
		find: func(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
			finds++
			if err, known := served[r.Group]; known {
				return schema.GroupVersionKind{Group: r.Group, Version: "v1", Kind: strings.ToUpper(r.Resource[:1])}, err
			}
			return schema.GroupVersionKind{}, &meta.NoResourceMatchError{PartialResource: r}
		},
	}
	k.all(func(kind schema.GroupVersionKind) error { watched = append(watched, kind.Kind); return nil })
	now := time.Unix(1000, 0)
	of := func(group, kind string) (ok bool, err error) {
		_, ok, err = k.of(schema.GroupKind{Group: group, Kind: kind}, now)
		return ok, err
	}
	check := func(when string, wantFinds int, group, kind string, want bool) {
		t.Helper()
		finds = 0
		if ok, err := of(group, kind); ok != want || err != nil || finds != wantFinds {
			t.Errorf("%s: known %v after %d requests, error %v; want %v after %d", when, ok, finds, err, want, wantFinds)
		}
	}
	check("nothing is served", 2, "x", "A", false)
	check("at once again", 0, "x", "A", false)
	now = now.Add(kindsAge)
	check("a group that is not allowed", 0, "z", "A", false)
	served["x"] = nil
	check("x is served", 2, "x", "A", true)
	check("x is known", 0, "x", "A", true)
	check("another kind of x", 0, "x", "B", false)
	if len(watched) != 1 || watched[0] != "A" || len(k.Missing()) != 1 {
		t.Errorf("%q are watched and %v missing, want A and bs.y", watched, k.Missing())
	}
	now = now.Add(kindsAge)
	served["y"] = errors.New("the API server is down")
	if ok, err := of("y", "B"); ok || err == nil {
		t.Errorf("known %v, error %v, want the error", ok, err)
	}
	now = now.Add(kindsAge)
	served["y"] = nil
	check("it is up again", 1, "y", "B", true)
}

func TestAKindThatCannotBeWatchedStaysMissing(t *testing.T) {
	k := &Kinds{
		known: map[schema.GroupKind]schema.GroupVersionKind{}, missing: []schema.GroupResource{schema.ParseGroupResource("as.x")},
		find: func(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
			return r.GroupVersion().WithKind("A"), nil
		},
	}
	k.all(func(schema.GroupVersionKind) error { return errors.New("no cache") })
	if _, ok, err := k.of(schema.GroupKind{Group: "x", Kind: "A"}, time.Unix(1000, 0)); ok || err == nil {
		t.Errorf("known %v, error %v", ok, err)
	}
}
