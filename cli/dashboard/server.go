package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/cli/status"
)

//go:embed page
var page embed.FS

// mostStreams is the maximum number of open pages.
const mostStreams = 64

// streamPath is the path of the changes of the page.
const streamPath = "/events"

// ServerOptions configure access to the page. Either Token or Admit is required.
type ServerOptions struct {
	// Token is the secret that a browser sends once, as ?token=, in exchange for a cookie.
	Token string
	// Admit decides who may see the page, by the tokens that users enter in a form or send in the header
	// Authorization. It requires that the server uses HTTPS.
	Admit Admission
	// Clock is the time for sessions of users that Admit admits; nil for the real one.
	Clock clock.WithTicker
	// Log receives logins.
	Log logr.Logger
	// Hosts are accepted host names, besides localhost and IP addresses.
	Hosts []string
	// Done ends all streams when it is closed.
	Done <-chan struct{}
}

// Server serves the page to browsers. It is read-only.
type Server struct {
	options  ServerOptions
	desk     *desk // nil if access is by Token
	hub      *hub
	patience time.Duration // write timeout of a browser
	streams  atomic.Int64
}

// NewServer returns a server with an empty page.
func NewServer(o ServerOptions) *Server {
	s := &Server{options: o, hub: newHub(), patience: usualPatience}
	if o.Admit != nil {
		if o.Clock == nil {
			o.Clock = clock.RealClock{}
		}
		s.desk = newDesk(o.Admit, o.Clock, o.Log)
	}
	return s
}

// Show replaces the page.
func (s *Server) Show(items []status.Item) { s.hub.put(items) }

func (s *Server) enter() bool {
	if s.streams.Add(1) <= mostStreams {
		return true
	}
	s.streams.Add(-1)
	return false
}

func (s *Server) leave() { s.streams.Add(-1) }

// Handler serves the page at /, its files next to it, and its changes at /events. For scripts, and for probes of the
// kubelet, it answers /healthz and /readyz to everybody, without any content of the page. /readyz is for when there is
// something to show; so is /healthz where users do not log in, as no kubelet restarts that program.
func (s *Server) Handler() http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET "+streamPath, s.stream)
	all := http.NewServeMux()
	all.Handle("/", s.guard(mux))
	alive := s.ready
	if s.desk != nil {
		alive = func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
	}
	all.HandleFunc("GET /healthz", alive)
	all.HandleFunc("GET /readyz", s.ready)
	return all
}

var indexPage = template.Must(template.ParseFS(page, "page/index.html"))

// index serves the page, which offers to log out if users log in.
func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := indexPage.Execute(w, map[string]bool{"LogOut": s.desk != nil}); err != nil {
		s.options.Log.V(2).Info("Failed to send the page", "error", err)
	}
}

// ready reports whether there is something to show.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if !s.hub.filled() {
		http.Error(w, "the cluster has not been read yet", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// policy allows the page's own scripts, styles and stream, and nothing from other origins. policyOfDesk also
// allows the page's own forms.
const (
	policy       = common + "form-action 'none'"
	policyOfDesk = common + "form-action 'self'"
	common       = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
		"base-uri 'none'; frame-ancestors 'none'; "
)

// guard rejects unauthorised requests before they are processed.
func (s *Server) guard(next http.Handler) http.Handler {
	allowed, admitted := policy, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.passHolder(w, r, next) })
	if s.desk != nil {
		allowed, admitted = policyOfDesk, s.desk.protect(next).ServeHTTP
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", allowed)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !s.knownHost(r.Host) {
			http.Error(w, "this host name is not accepted: use an IP address or localhost, or add the name with --accept-host of `supercargo dashboard`", http.StatusMisdirectedRequest)
			return
		}
		admitted.ServeHTTP(w, r)
	})
}

// passHolder passes requests of a browser that has had the token to next.
func (s *Server) passHolder(w http.ResponseWriter, r *http.Request, next http.Handler) {
	switch {
	case r.URL.Path == "/" && r.URL.Query().Has("token"):
		s.logIn(w, r)
	case !s.loggedIn(r):
		http.Error(w, "open the address that the program has printed, with its token", http.StatusUnauthorized)
	default:
		next.ServeHTTP(w, r)
	}
}

// knownHost reports whether a host is accepted. In a DNS rebinding attack, a foreign page resolves its
// own host name to this server, so unknown names are rejected; IP addresses involve no lookup.
func (s *Server) knownHost(hostPort string) bool {
	host := hostPort
	if name, _, err := net.SplitHostPort(hostPort); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return true
	}
	return slices.Contains(s.options.Hosts, host)
}

// cookie returns the name of the cookie, which is unique to this server: browsers share cookies between
// the ports of a host.
func (s *Server) cookie() string {
	sum := sha256.Sum256([]byte(s.options.Token))
	return "supercargo-" + hex.EncodeToString(sum[:4])
}

// logIn exchanges the token in the URL for a cookie.
func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	if !s.right(r.URL.Query().Get("token")) {
		http.Error(w, "the token is invalid: open the address that the program has printed", http.StatusUnauthorized)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: s.options.Token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *Server) loggedIn(r *http.Request) bool {
	c, err := r.Cookie(s.cookie())
	return err == nil && s.right(c.Value)
}

func (s *Server) right(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.options.Token)) == 1
}
