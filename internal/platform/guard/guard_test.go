package guard

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// reviewer stands in for an API server: it knows tokens of the form "is:NAME", and lets only "reader" get /metrics.
type reviewer struct {
	down atomic.Bool
}

func (a *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.down.Load() {
		http.Error(w, "down", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/tokenreviews"):
		var review authenticationv1.TokenReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		name, known := strings.CutPrefix(review.Spec.Token, "is:")
		review.Status.Authenticated, review.Status.User.Username = known, name
		if !known {
			review.Status.Error = "unknown token"
		}
		_ = json.NewEncoder(w).Encode(&review)
	case strings.HasSuffix(r.URL.Path, "/subjectaccessreviews"):
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		asked := review.Spec.NonResourceAttributes
		review.Status.Allowed = review.Spec.User == "reader" && asked.Path == "/metrics" && asked.Verb == "get"
		_ = json.NewEncoder(w).Encode(&review)
	default:
		http.NotFound(w, r)
	}
}

// guarded returns a guard of a reviewer, and what it logs.
func guarded(t *testing.T) (*Guard, *reviewer, *strings.Builder) {
	t.Helper()
	api := &reviewer{}
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	logged := &strings.Builder{}
	g, err := New(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, "", funcr.New(func(prefix, args string) {
		logged.WriteString(prefix + args + "\n")
	}, funcr.Options{Verbosity: 9}))
	if err != nil {
		t.Fatal(err)
	}
	return g, api, logged
}

func TestACallerIsToldWhyItIsNotAdmitted(t *testing.T) {
	g, api, logged := guarded(t)
	handler := g.Protect(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	for _, tc := range []struct {
		name, token, path string
		down              bool
		want              int
	}{
		{"no token", "", "/metrics", false, http.StatusUnauthorized},
		{"an unknown token", "c3cret", "/metrics", false, http.StatusUnauthorized},
		{"a user without the permission", "is:other", "/metrics", false, http.StatusForbidden},
		{"another path", "is:reader", "/energy", false, http.StatusForbidden},
		{"a user with the permission", "is:reader", "/metrics", false, http.StatusOK},
		{"an API server that does not review the token", "is:new", "/metrics", true, http.StatusServiceUnavailable},
		{"an API server that does not review the access", "is:other", "/debug", true, http.StatusServiceUnavailable},
		{"a permission that was reviewed before", "is:reader", "/metrics", true, http.StatusOK},
	} {
		t.Run(tc.name, func(t *testing.T) {
			api.down.Store(tc.down)
			r := httptest.NewRequest(http.MethodGet, tc.path, http.NoBody)
			if tc.token != "" {
				r.Header.Set("Authorization", "Bearer "+tc.token)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("status %d, want %d: %s", w.Code, tc.want, w.Body)
			}
			if challenge := w.Header().Get("WWW-Authenticate"); (challenge == "Bearer") != (tc.want == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate is %q", challenge)
			}
			_, refused := g.Admit(t.Context(), tc.token, http.MethodGet, tc.path)
			if refused == nil && tc.want != http.StatusOK || refused != nil && refused.Code != tc.want {
				t.Errorf("Admit returns %+v, want code %d", refused, tc.want)
			}
			if refused != nil && refused.Message == "" {
				t.Error("the refusal has no message")
			}
		})
	}
	if text := logged.String(); strings.Contains(text, "c3cret") || strings.Contains(text, "is:reader") {
		t.Errorf("a token was logged:\n%s", text)
	}
}

func TestAdmitReturnsTheUser(t *testing.T) {
	g, _, _ := guarded(t)
	if user, refused := g.Admit(t.Context(), "is:reader", http.MethodGet, "/metrics"); user != "reader" || refused != nil {
		t.Errorf("user %q, refused %+v", user, refused)
	}
}
