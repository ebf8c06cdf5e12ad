// Package guard serves protected content, such as metrics of nodes, by HTTPS to callers that the cluster's API server
// authenticates (TokenReview) and authorizes (SubjectAccessReview).
//
// Callers present the token of their ServiceAccount. If a guard has its own audience, callers should use a token bound
// to it: whoever steals such a token, for example by taking over a node, cannot use it elsewhere. Tokens for the API
// server itself are accepted too, because Prometheus has no others.
package guard

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/internal/platform/crowd"
)

const (
	// reviewTimeout is the timeout of a review by the API server. rememberKnown, rememberAllowed and rememberDenied are
	// how long its result is cached.
	reviewTimeout   = 10 * time.Second
	rememberKnown   = time.Minute
	rememberAllowed = 5 * time.Minute
	rememberDenied  = 30 * time.Second
	// reviewsPerSecond limits the rate of reviews, because anybody can send tokens.
	reviewsPerSecond = 10
)

// Guard admits requests that the API server authenticates and authorizes.
type Guard struct {
	audience string
	who      authenticator.Request
	may      authorizer.Authorizer
	log      logr.Logger
}

// New returns a guard that uses the API server of config. It needs permission to create tokenreviews and
// subjectaccessreviews. If audience is empty, the guard has no audience of its own.
func New(config *rest.Config, audience string, log logr.Logger) (*Guard, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.Timeout = reviewsPerSecond, 2*reviewsPerSecond, reviewTimeout
	who, err := authenticationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up authentication: %w", err)
	}
	may, err := authorizationv1.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up authorization: %w", err)
	}
	g := &Guard{audience: audience, log: log}
	g.who, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{
		CacheTTL: rememberKnown, TokenAccessReviewClient: who, TokenAccessReviewTimeout: reviewTimeout, WebhookRetryBackoff: backoff(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("set up authentication: %w", err)
	}
	g.may, err = authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: may, AllowCacheTTL: rememberAllowed, DenyCacheTTL: rememberDenied, WebhookRetryBackoff: backoff(),
	}.New()
	if err != nil {
		return nil, fmt.Errorf("set up authorization: %w", err)
	}
	return g, nil
}

// backoff is the retry back-off for an API server that does not respond. It is short because callers retry themselves.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 2}
}

// Refusal is why a caller is not admitted.
type Refusal struct {
	// Code is the HTTP status code: 401 if the caller is unknown, 403 if it is not allowed, 503 if the API server did not
	// answer.
	Code int
	// Message tells the caller why.
	Message string
}

// Protect returns a handler that passes requests to next if their caller may use the verb on the path. It responds to
// other requests with the code of the [Refusal].
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, refused := g.review(r, r.Method, r.URL.Path); refused != nil {
			if refused.Code == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			http.Error(w, refused.Message, refused.Code)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Admit returns the name of the user that a token belongs to, or why that user may not use the verb on the path. It
// caches answers: a token that was revoked is admitted for another minute at most, and a permission for five.
func (g *Guard) Admit(ctx context.Context, token, verb, path string) (user string, refused *Refusal) {
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}}
	return g.review(r.WithContext(ctx), verb, path)
}

// review has the API server review the token of a request, and whether its user may use the verb on the path.
func (g *Guard) review(r *http.Request, verb, path string) (user string, refused *Refusal) {
	who, known, err := g.who.AuthenticateRequest(g.addressed(r))
	if err != nil || !known {
		g.log.V(2).Info("Failed to authenticate a caller", "from", r.RemoteAddr, "error", err)
		if unanswered(err) {
			return "", &Refusal{http.StatusServiceUnavailable, "the API server of this cluster did not answer the TokenReview: try again later"}
		}
		return "", &Refusal{http.StatusUnauthorized, "a token that the API server of this cluster accepts is required"}
	}
	user = who.User.GetName()
	asked := authorizer.AttributesRecord{User: who.User, Verb: strings.ToLower(verb), Path: path}
	switch decision, why, err := g.may.Authorize(r.Context(), asked); {
	case err != nil:
		g.log.Error(err, "Failed to authorize a caller", "user", user, "path", path)
		return user, &Refusal{http.StatusServiceUnavailable, "the API server of this cluster did not answer the SubjectAccessReview: try again later"}
	case decision != authorizer.DecisionAllow:
		g.log.V(2).Info("Denied a request", "user", user, "path", path, "reason", why)
		return user, &Refusal{http.StatusForbidden, fmt.Sprintf("user %q may not %s %s: bind a ClusterRole that allows this nonResourceURL", user, asked.Verb, path)}
	}
	return user, nil
}

// unanswered reports whether an error of a TokenReview is about the request to the API server, and not about the token.
func unanswered(err error) bool {
	err = utilerrors.Reduce(err) // errors.As does not look into an aggregate
	var status apierrors.APIStatus
	var network *url.Error
	return errors.As(err, &status) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// addressed returns the request with the audience for the review of its token: that of the guard if the token claims
// it, else none, which means the API server's. The claim is not verified; it only saves a second review.
func (g *Guard) addressed(r *http.Request) *http.Request {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if g.audience == "" || !slices.Contains(audiencesOf(token), g.audience) {
		return r
	}
	return r.WithContext(authenticator.WithAudiences(r.Context(), authenticator.Audiences{g.audience}))
}

// audiencesOf returns the audiences that a token claims, without verifying it.
func audiencesOf(token string) []string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var many struct {
		Audiences []string `json:"aud"`
	}
	if json.Unmarshal(text, &many) == nil {
		return many.Audiences
	}
	var one struct {
		Audience string `json:"aud"`
	}
	if json.Unmarshal(text, &one) == nil {
		return []string{one.Audience}
	}
	return nil
}

// Limits per server, before and after authentication.
const (
	mostConnections  = 128
	mostOneAddress   = 32
	mostHeaderBytes  = 16 << 10
	headerPatience   = 10 * time.Second
	exchangePatience = 30 * time.Second
	idlePatience     = 2 * time.Minute
)

// Server is an HTTPS server, or an HTTP server, with limits for callers.
type Server struct {
	// Address is the host:port to listen on.
	Address string
	// Listener is used instead of Address if not nil.
	Listener net.Listener
	// Handler handles requests. [Guard.Protect] should wrap protected content.
	Handler http.Handler
	// MostOneAddress is the maximum number of connections from one address; 0 for the usual number. A server behind a proxy
	// needs more, because all its connections come from there.
	MostOneAddress int
	// Certificate returns the serving certificate; nil serves HTTP, which is only for public content.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Log is the logger.
	Log logr.Logger
}

// Serve serves until ctx is done.
func (s *Server) Serve(ctx context.Context) error {
	listener := s.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address); err != nil {
			return fmt.Errorf("listen on %s: %w", s.Address, err)
		}
	}
	server := &http.Server{
		Handler: s.Handler, ReadHeaderTimeout: headerPatience, ReadTimeout: exchangePatience, WriteTimeout: exchangePatience, IdleTimeout: idlePatience,
		MaxHeaderBytes: mostHeaderBytes,
		ErrorLog:       log.New(io.Discard, "", 0), // any caller can make handshakes fail
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	ended := make(chan error, 1)
	limited := crowd.Limit(listener, mostConnections, cmp.Or(s.MostOneAddress, mostOneAddress), s.Log)
	go func() {
		if s.Certificate == nil {
			ended <- server.Serve(limited)
			return
		}
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.Certificate, NextProtos: []string{"http/1.1"}}
		ended <- server.ServeTLS(limited, "", "")
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve at %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	err := server.Close()
	if stopped := <-ended; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, stopped)
	}
	return errors.Join(ctx.Err(), err)
}
