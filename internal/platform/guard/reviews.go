package guard

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/util/retry"
)

const (
	// reviewTimeout is the timeout of a review by the API server. rememberKnown, rememberAllowed and rememberDenied are
	// how long its result is cached; mostRemembered results of each kind are.
	reviewTimeout   = 10 * time.Second
	rememberKnown   = time.Minute
	rememberAllowed = 5 * time.Minute
	rememberDenied  = 30 * time.Second
	mostRemembered  = 4096
	// mostTokenBytes bounds what is sent to the API server: tokens of ServiceAccounts have one or two KiB.
	mostTokenBytes = 16 << 10
	// allAuthenticated is the group of all users, which an API server may leave out of a review.
	allAuthenticated = "system:authenticated"
)

// errUnanswered marks an error about the request to the API server, and not about the token or the user.
var errUnanswered = errors.New("the API server did not answer")

// reviews asks an API server who sent a token and what that user may do. It remembers answers, but no failures to get
// one, and asks once for equal questions at a time. It is safe for concurrent use.
//
// The libraries of Kubernetes' API server have the same. They are not used, because they bring that server's admission,
// storage and expression language into each program.
type reviews struct {
	tokens   authenticationv1.TokenReviewInterface
	accesses authorizationv1.SubjectAccessReviewInterface

	users, verdicts *cache.LRUExpireCache
	asked           singleflight.Group
}

func newReviews(tokens authenticationv1.TokenReviewInterface, accesses authorizationv1.SubjectAccessReviewInterface, clock cache.Clock) *reviews {
	return &reviews{
		tokens: tokens, accesses: accesses,
		users: cache.NewLRUExpireCacheWithClock(mostRemembered, clock), verdicts: cache.NewLRUExpireCacheWithClock(mostRemembered, clock),
	}
}

// user returns the user that a token belongs to, or nil if the API server does not know it for that audience; an empty
// audience is the API server's own. An error wraps [errUnanswered].
func (r *reviews) user(ctx context.Context, token, audience string) (*authentication.UserInfo, error) {
	if token == "" || len(token) > mostTokenBytes {
		return nil, nil
	}
	// The cache holds no tokens, so that a dump of the memory shows none that is not in use.
	key := sha256.Sum256([]byte(audience + "\x00" + token))
	if known, found := r.users.Get(key); found {
		return known.(*authentication.UserInfo), nil
	}
	answer, err := r.once(ctx, "token "+string(key[:]), func(ctx context.Context) (any, error) {
		review := &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}
		if audience != "" {
			review.Spec.Audiences = []string{audience}
		}
		review, err := r.tokens.Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		user := userOf(review, audience)
		r.users.Add(key, user, rememberKnown)
		return user, nil
	})
	if err != nil {
		return nil, fmt.Errorf("review a token: %w", err)
	}
	return answer.(*authentication.UserInfo), nil
}

// userOf returns the user of a review, or nil if the token is not accepted. An API server that does not know audiences
// confirms none, and its answer then says nothing about ours.
func userOf(review *authentication.TokenReview, audience string) *authentication.UserInfo {
	if !review.Status.Authenticated || audience != "" && !slices.Contains(review.Status.Audiences, audience) {
		return nil
	}
	user := review.Status.User
	if !slices.Contains(user.Groups, allAuthenticated) {
		user.Groups = append(slices.Clone(user.Groups), allAuthenticated)
	}
	return &user
}

// verdict is the answer to whether a user may do something, and why.
type verdict struct {
	allowed bool
	why     string
}

// may reports whether a user may use the verb on a path. An error wraps [errUnanswered].
func (r *reviews) may(ctx context.Context, user *authentication.UserInfo, verb, path string) (verdict, error) {
	spec := authorization.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorization.ExtraValue{},
		NonResourceAttributes: &authorization.NonResourceAttributes{Path: path, Verb: verb},
	}
	for name, values := range user.Extra {
		spec.Extra[name] = authorization.ExtraValue(values)
	}
	text, err := spec.Marshal() // maps in the order of their keys
	if err != nil {
		return verdict{}, fmt.Errorf("review an access: %w", err)
	}
	key := sha256.Sum256(text)
	if known, found := r.verdicts.Get(key); found {
		return known.(verdict), nil
	}
	answer, err := r.once(ctx, "access "+string(key[:]), func(ctx context.Context) (any, error) {
		review, err := r.accesses.Create(ctx, &authorization.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return nil, err
		}
		v := verdict{allowed: review.Status.Allowed && !review.Status.Denied, why: strings.Join([]string{review.Status.Reason, review.Status.EvaluationError}, " ")}
		remember := rememberDenied
		if v.allowed {
			remember = rememberAllowed
		}
		r.verdicts.Add(key, v, remember)
		return v, nil
	})
	if err != nil {
		return verdict{}, fmt.Errorf("review an access: %w", err)
	}
	return answer.(verdict), nil
}

// once asks the API server, twice if the first failure may pass, for all callers that ask the same at the same time. A
// caller whose ctx ends returns; the question continues for the others.
func (r *reviews) once(ctx context.Context, question string, ask func(context.Context) (any, error)) (any, error) {
	answered := r.asked.DoChan(question, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
		defer cancel()
		var answer any
		err := retry.OnError(backoff(), mayPass, func() (err error) {
			answer, err = ask(ctx)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnanswered, err)
		}
		return answer, nil
	})
	select {
	case a := <-answered:
		return a.Val, a.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errUnanswered, ctx.Err())
	}
}

// backoff is the retry back-off for an API server that does not respond. It is short because callers retry themselves.
func backoff() wait.Backoff {
	return wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 2}
}

// mayPass reports whether the same request may succeed soon.
func mayPass(err error) bool {
	return utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err)
}
