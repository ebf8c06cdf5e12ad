package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"supercargo.dev/supercargo/cmd/supercargo/dashboard/view"
)

//go:embed page
var page embed.FS

// mostStreams is how many pages may be open at once.
const mostStreams = 64

// ServerOptions say who may see the page.
type ServerOptions struct {
	// Token is what a browser must show once, as ?token=. Then it has a cookie. Required.
	Token string
	// Hosts are names that the page may be asked for by, besides localhost and addresses.
	Hosts []string
	// Done ends all streams when it is closed.
	Done <-chan struct{}
}

// Server answers browsers. It only ever reads.
type Server struct {
	options  ServerOptions
	hub      *hub
	patience time.Duration // with a browser that does not read
	streams  atomic.Int64
}

// NewServer returns a server that has nothing to show yet.
func NewServer(o ServerOptions) *Server {
	return &Server{options: o, hub: newHub(), patience: usualPatience}
}

// Show replaces what is shown.
func (s *Server) Show(items []view.Item) { s.hub.put(items) }

func (s *Server) enter() bool {
	if s.streams.Add(1) <= mostStreams {
		return true
	}
	s.streams.Add(-1)
	return false
}

func (s *Server) leave() { s.streams.Add(-1) }

// Handler serves the page at /, its parts beside it, and what changes at /events.
func (s *Server) Handler() http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /events", s.stream)
	return s.guard(mux)
}

// policy lets a page have its own scripts, styles and stream, and nothing from anywhere else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guard refuses who may not see the page, before anything else is looked at.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !s.knownHost(r.Host):
			http.Error(w, "this page is not served under that name: ask for it by address or as localhost, or name the host with --accept-host", http.StatusMisdirectedRequest)
		case r.URL.Path == "/" && r.URL.Query().Has("token"):
			s.logIn(w, r)
		case !s.loggedIn(r):
			http.Error(w, "open the address that `supercargo dashboard` has printed, with its token", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// knownHost reports whether a page may be asked for by a name. A page of somebody else that has the
// browser look up its own name here (DNS rebinding) has a name that nobody has allowed; an address is
// not looked up.
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

// cookie is the name of this server's cookie: others on this computer have their own, since cookies do
// not tell ports apart.
func (s *Server) cookie() string {
	sum := sha256.Sum256([]byte(s.options.Token))
	return "supercargo-" + hex.EncodeToString(sum[:4])
}

// logIn takes the token out of the address and gives a cookie for it.
func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	if !s.right(r.URL.Query().Get("token")) {
		http.Error(w, "that token is not the one that `supercargo dashboard` has printed", http.StatusUnauthorized)
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
