package guard

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

// asked is an API server that counts reviews. Its functions may be replaced.
type asked struct {
	mu               sync.Mutex
	tokens, accesses int
	token            func(*authentication.TokenReview) error
	access           func(*authorization.SubjectAccessReview) error
}

func (a *asked) counts() (tokens, accesses int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tokens, a.accesses
}

func reviewsOf(a *asked) (*reviews, *testingclock.FakeClock) {
	api := fake.NewClientset()
	api.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		a.tokens++
		a.mu.Unlock()
		review := action.(clienttesting.CreateAction).GetObject().(*authentication.TokenReview).DeepCopy()
		return true, review, a.token(review)
	})
	api.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		a.mu.Lock()
		a.accesses++
		a.mu.Unlock()
		review := action.(clienttesting.CreateAction).GetObject().(*authorization.SubjectAccessReview).DeepCopy()
		return true, review, a.access(review)
	})
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	return newReviews(api.AuthenticationV1().TokenReviews(), api.AuthorizationV1().SubjectAccessReviews(), clock), clock
}

func known(name string) func(*authentication.TokenReview) error {
	return func(review *authentication.TokenReview) error {
		review.Status = authentication.TokenReviewStatus{Authenticated: true, Audiences: review.Spec.Audiences, User: authentication.UserInfo{Username: name}}
		return nil
	}
}

func TestAnAnswerIsRememberedForItsTime(t *testing.T) {
	a := &asked{token: known("u"), access: func(r *authorization.SubjectAccessReview) error {
		r.Status.Allowed = r.Spec.NonResourceAttributes.Path == "/yes"
		return nil
	}}
	r, clock := reviewsOf(a)
	ask := func() {
		t.Helper()
		user, err := r.user(t.Context(), "t", "")
		if err != nil || user == nil || user.Username != "u" {
			t.Fatalf("user %v, %v", user, err)
		}
		for _, path := range []string{"/yes", "/no"} {
			if v, err := r.may(t.Context(), user, "get", path); err != nil || v.allowed != (path == "/yes") {
				t.Fatalf("%s: %+v, %v", path, v, err)
			}
		}
	}
	for _, tc := range []struct {
		after            time.Duration
		tokens, accesses int
	}{
		{0, 1, 2}, {rememberDenied - time.Second, 1, 2}, {2 * time.Second, 1, 3}, {rememberKnown, 2, 4}, {rememberAllowed, 3, 6},
	} {
		clock.Step(tc.after)
		ask()
		if tokens, accesses := a.counts(); tokens != tc.tokens || accesses != tc.accesses {
			t.Errorf("%v later: %d and %d reviews so far, want %d and %d", tc.after, tokens, accesses, tc.tokens, tc.accesses)
		}
	}
}

func TestATokenIsOfItsAudienceOnly(t *testing.T) {
	a := &asked{token: func(review *authentication.TokenReview) error {
		// An API server that ignores audiences.
		review.Status = authentication.TokenReviewStatus{Authenticated: true, User: authentication.UserInfo{Username: "u"}}
		return nil
	}}
	r, _ := reviewsOf(a)
	if user, err := r.user(t.Context(), "t", "ours"); user != nil || err != nil {
		t.Errorf("user %v, %v: want none, because no audience was confirmed", user, err)
	}
	if user, err := r.user(t.Context(), "t", ""); user == nil || err != nil {
		t.Errorf("user %v, %v: want one, for the API server's own audience", user, err)
	}
}

func TestAUserKeepsItsGroupsAndExtra(t *testing.T) {
	var got authorization.SubjectAccessReviewSpec
	a := &asked{token: func(review *authentication.TokenReview) error {
		review.Status = authentication.TokenReviewStatus{Authenticated: true, User: authentication.UserInfo{
			Username: "u", UID: "1", Groups: []string{"g"}, Extra: map[string]authentication.ExtraValue{"scope": {"a", "b"}},
		}}
		return nil
	}, access: func(r *authorization.SubjectAccessReview) error {
		got = r.Spec
		r.Status.Allowed, r.Status.Denied = true, true
		return nil
	}}
	r, _ := reviewsOf(a)
	user, err := r.user(t.Context(), "t", "")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := r.may(t.Context(), user, "get", "/metrics"); err != nil || v.allowed {
		t.Errorf("%+v, %v: want no, because an authorizer denies it", v, err)
	}
	want := authorization.SubjectAccessReviewSpec{
		User: "u", UID: "1", Groups: []string{"g", "system:authenticated"}, Extra: map[string]authorization.ExtraValue{"scope": {"a", "b"}},
		NonResourceAttributes: &authorization.NonResourceAttributes{Path: "/metrics", Verb: "get"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoTokenIsSentThatCannotBeOne(t *testing.T) {
	a := &asked{token: known("u")}
	r, _ := reviewsOf(a)
	for _, token := range []string{"", strings.Repeat("x", mostTokenBytes+1)} {
		if user, err := r.user(t.Context(), token, ""); user != nil || err != nil {
			t.Errorf("user %v, %v, want none", user, err)
		}
	}
	if tokens, _ := a.counts(); tokens != 0 {
		t.Errorf("%d reviews, want none", tokens)
	}
}

func TestAFailureThatMayPassIsTriedTwiceAndNotRemembered(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		tries int
	}{
		{"an internal error", apierrors.NewInternalError(errors.New("etcd")), 2},
		{"no permission to ask", apierrors.NewForbidden(authentication.SchemeGroupVersion.WithResource("tokenreviews").GroupResource(), "", errors.New("rbac")), 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := &asked{token: func(*authentication.TokenReview) error { return tc.err }}
			r, _ := reviewsOf(a)
			if _, err := r.user(t.Context(), "t", ""); !errors.Is(err, errUnanswered) {
				t.Errorf("error %v, want that the API server did not answer", err)
			}
			if tokens, _ := a.counts(); tokens != tc.tries {
				t.Errorf("%d reviews, want %d", tokens, tc.tries)
			}
			a.token = known("u")
			if user, err := r.user(t.Context(), "t", ""); user == nil || err != nil {
				t.Errorf("user %v, %v: want the answer, once there is one", user, err)
			}
		})
	}
}

func TestEqualQuestionsAtOneTimeAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		a := &asked{token: func(review *authentication.TokenReview) error {
			<-release
			return known("u")(review)
		}}
		r, _ := reviewsOf(a)
		gone, leave := context.WithCancel(t.Context())
		first := make(chan error)
		go func() {
			_, err := r.user(gone, "t", "")
			first <- err
		}()
		synctest.Wait()
		second := make(chan *authentication.UserInfo)
		go func() {
			user, _ := r.user(t.Context(), "t", "")
			second <- user
		}()
		synctest.Wait()
		leave()
		if err := <-first; !errors.Is(err, errUnanswered) {
			t.Errorf("the caller that left got %v", err)
		}
		close(release)
		if user := <-second; user == nil || user.Username != "u" {
			t.Errorf("the caller that stayed got %v", user)
		}
		if tokens, _ := a.counts(); tokens != 1 {
			t.Errorf("%d reviews, want 1", tokens)
		}
	})
}
