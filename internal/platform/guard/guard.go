// Package guard serves what not everybody may read, such as metrics of nodes, by HTTPS to
// those whom the cluster's API server knows (TokenReview) and lets (SubjectAccessReview).
//
// Callers show the token of their ServiceAccount. Where a guard has an audience of its own,
// they best show one that is bound to it: who gets hold of such a token, by taking over a
// node, can do nothing else with it. Tokens for the API server itself are good too, since
// Prometheus has no others.
package guard

import (
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
	// reviewTimeout is how long the API server may take to say who somebody is, or what they
	// may do; rememberKnown, rememberAllowed and rememberDenied are for how long it is not
	// asked again.
	reviewTimeout   = 10 * time.Second
	rememberKnown   = time.Minute
	rememberAllowed = 5 * time.Minute
	rememberDenied  = 30 * time.Second
	// reviewsPerSecond bounds how often it is asked: anybody can show tokens.
	reviewsPerSecond = 10
)

// Guard lets through to a handler whom the API server lets.
type Guard struct {
	audience string
	who      authenticator.Request
	may      authorizer.Authorizer
	log      logr.Logger
}

// New returns a guard that asks the API server which config reaches. It needs the rights to
// create tokenreviews and subjectaccessreviews. An empty audience is none of its own.
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

// backoff is how an API server is asked that does not answer: the caller asks again by itself.
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 2}
}

// Protect returns a handler that answers 401 to whom the API server does not know, 403 to
// whom it does not let use the verb at the path, and leaves the others to next.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, known, err := g.who.AuthenticateRequest(g.addressed(r))
		if err != nil || !known {
			g.log.V(2).Info("A caller is not known", "from", r.RemoteAddr, "error", err)
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "show the token of a ServiceAccount that the API server of this cluster knows", http.StatusUnauthorized)
			return
		}
		asked := authorizer.AttributesRecord{User: who.User, Verb: strings.ToLower(r.Method), Path: r.URL.Path}
		switch decision, why, err := g.may.Authorize(r.Context(), asked); {
		case err != nil:
			g.log.Error(err, "The API server does not say whether a caller may", "user", who.User.GetName(), "path", asked.Path)
			http.Error(w, "the API server of this cluster does not say whether you may: try again later", http.StatusServiceUnavailable)
		case decision != authorizer.DecisionAllow:
			g.log.V(2).Info("A caller is turned away", "user", who.User.GetName(), "path", asked.Path, "reason", why)
			http.Error(w, fmt.Sprintf("user %q may not %s %s: bind a ClusterRole that allows this nonResourceURL", who.User.GetName(), asked.Verb, asked.Path), http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// addressed returns the request with the audience by which its token is to be reviewed: that
// of the guard if the token says that it is for it, else none, which is the API server's. What
// the token says of itself is not verified: it only spares the API server a second question.
func (g *Guard) addressed(r *http.Request) *http.Request {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if g.audience == "" || !slices.Contains(audiencesOf(token), g.audience) {
		return r
	}
	return r.WithContext(authenticator.WithAudiences(r.Context(), authenticator.Audiences{g.audience}))
}

// audiencesOf reads for whom a token is, without verifying it.
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

// What a caller may take of a server before and after it is known who that is.
const (
	mostConnections  = 128
	mostOneAddress   = 32
	mostHeaderBytes  = 16 << 10
	headerPatience   = 10 * time.Second
	exchangePatience = 30 * time.Second
	idlePatience     = 2 * time.Minute
)

// Server serves by HTTPS.
type Server struct {
	// Address is where it listens, as host:port.
	Address string
	// Listener is used in the place of Address if it is not nil.
	Listener net.Listener
	// Handler answers; what not everybody may read is behind [Guard.Protect].
	Handler http.Handler
	// Certificate returns what it serves with.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Log takes what is worth a line.
	Log logr.Logger
}

// Serve serves until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	listener := s.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.Address); err != nil {
			return fmt.Errorf("listen at %s: %w", s.Address, err)
		}
	}
	server := &http.Server{
		Handler: s.Handler, ReadHeaderTimeout: headerPatience, ReadTimeout: exchangePatience, WriteTimeout: exchangePatience, IdleTimeout: idlePatience,
		MaxHeaderBytes: mostHeaderBytes,
		TLSConfig:      &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.Certificate, NextProtos: []string{"http/1.1"}},
		ErrorLog:       log.New(io.Discard, "", 0), // whoever finds the port can make handshakes fail
	}
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	ended := make(chan error, 1)
	go func() {
		ended <- server.ServeTLS(crowd.Limit(listener, mostConnections, mostOneAddress, s.Log), "", "")
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
