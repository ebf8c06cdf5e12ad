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
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/platform/crowd"
)

// reviewsPerSecond limits the rate of reviews, because anybody can send tokens.
const reviewsPerSecond = 10

// Guard admits requests that the API server authenticates and authorizes.
type Guard struct {
	audience string
	reviews  *reviews
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
	return &Guard{audience: audience, reviews: newReviews(who.TokenReviews(), may.SubjectAccessReviews(), clock.RealClock{}), log: log}, nil
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
		if _, refused := g.review(r.Context(), bearerToken(r), r.Method, r.URL.Path); refused != nil {
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
	return g.review(ctx, token, verb, path)
}

// review has the API server review a token, and whether its user may use the verb on the path.
func (g *Guard) review(ctx context.Context, token, verb, path string) (user string, refused *Refusal) {
	who, err := g.reviews.user(ctx, token, g.audienceOf(token))
	switch {
	case err != nil:
		g.log.V(2).Info("Failed to authenticate a caller", "error", err)
		return "", &Refusal{http.StatusServiceUnavailable, "the API server of this cluster did not answer the TokenReview: try again later"}
	case who == nil:
		return "", &Refusal{http.StatusUnauthorized, "a token that the API server of this cluster accepts is required"}
	}
	verb = strings.ToLower(verb)
	switch v, err := g.reviews.may(ctx, who, verb, path); {
	case err != nil:
		g.log.Error(err, "Failed to authorize a caller", "user", who.Username, "path", path)
		return who.Username, &Refusal{http.StatusServiceUnavailable, "the API server of this cluster did not answer the SubjectAccessReview: try again later"}
	case !v.allowed:
		g.log.V(2).Info("Denied a request", "user", who.Username, "path", path, "reason", v.why)
		return who.Username, &Refusal{http.StatusForbidden, fmt.Sprintf("user %q may not %s %s: bind a ClusterRole that allows this nonResourceURL", who.Username, verb, path)}
	}
	return who.Username, nil
}

// audienceOf returns the audience for the review of a token: that of the guard if the token claims it, else "", which
// means the API server's. The claim is not verified; it only saves a second review.
func (g *Guard) audienceOf(token string) string {
	if g.audience == "" || !slices.Contains(audiencesOf(token), g.audience) {
		return ""
	}
	return g.audience
}

// bearerToken returns the token of a request, or "".
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
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
