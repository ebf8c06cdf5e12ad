package dashboard

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/internal/platform/guard"
)

// Path is the nonResourceURL that users must be allowed to get to see the page.
const Path = "/dashboard"

// Audience is the audience of tokens that are valid for the page only.
const Audience = "dashboard.supercargo.dev"

const (
	// sessionCookie is the name of the cookie. Browsers accept the prefix only with HTTPS, for all paths and
	// without a domain, so that no other host can set it.
	sessionCookie = "__Host-supercargo-dashboard"
	// reviewEvery is the interval at which the token of an open page is reviewed again.
	reviewEvery = 30 * time.Second
	// mostForm is the maximum size of the form with the token, in bytes.
	mostForm = 16 << 10
)

// Admission returns the user that a token belongs to, or why that user may not see the page.
type Admission func(ctx context.Context, token string) (user string, refused *guard.Refusal)

// desk admits users whom the API server authenticates and authorizes. A request has a token in its header
// Authorization, or the cookie of a session, for which a user has entered a token once.
type desk struct {
	admit    Admission
	clock    clock.WithTicker
	log      logr.Logger
	sessions *sessions
	origin   *http.CrossOriginProtection
}

func newDesk(admit Admission, clock clock.WithTicker, log logr.Logger) *desk {
	return &desk{admit: admit, clock: clock, log: log, sessions: newSessions(), origin: http.NewCrossOriginProtection()}
}

//go:embed login.html
var loginPage embed.FS

var loginForm = template.Must(template.ParseFS(loginPage, "login.html"))

// assets are the files of the page that the form uses too. They contain nothing about a cluster.
var assets = map[string]bool{"/style.css": true, "/icon.svg": true}

// protect passes requests of admitted users to next, and answers the others.
func (d *desk) protect(next http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, _ *http.Request) { d.showForm(w, http.StatusOK, "") })
	mux.Handle("POST /login", d.origin.Handler(http.HandlerFunc(d.logIn)))
	mux.Handle("POST /logout", d.origin.Handler(http.HandlerFunc(d.logOut)))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if assets[r.URL.Path] && r.Method == http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		d.pass(w, r, next)
	})
	return mux
}

// pass passes a request to next if its user is admitted, for as long as that user is.
func (d *desk) pass(w http.ResponseWriter, r *http.Request, next http.Handler) {
	c := credentialOf(r)
	if c.session != "" && r.URL.Path == streamPath && !ofThePage(r) {
		http.Error(w, "only the page may open the stream", http.StatusForbidden)
		return
	}
	switch refused := d.review(r.Context(), c); {
	case refused == nil:
	case refused.Code == http.StatusUnauthorized && c.token == "" && r.URL.Path == "/":
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	default:
		d.refuse(w, r, refused)
		return
	}
	if r.URL.Path != streamPath {
		next.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.reviewUntil(ctx, c)
		cancel()
	}()
	next.ServeHTTP(w, r.WithContext(ctx))
	cancel()
	<-done
}

// ofThePage reports whether a request comes from a page of this server. Browsers say so; others have no
// cookies of their users.
func ofThePage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site == "" || site == "same-origin" || site == "none"
}

// credential is what a request is admitted by: a token, or the ID of a session.
type credential struct{ token, session string }

func credentialOf(r *http.Request) (c credential) {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		c.token = strings.TrimSpace(token)
		return c
	}
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		c.session = cookie.Value
	}
	return c
}

// review returns nil if the user of a credential may see the page now. It ends the session of a user who may
// no longer.
func (d *desk) review(ctx context.Context, c credential) *guard.Refusal {
	token := c.token
	if token == "" {
		found, ok := d.sessions.find(c.session, d.clock.Now())
		if !ok {
			return &guard.Refusal{Code: http.StatusUnauthorized, Message: "log in first: you have not, or your session is over"}
		}
		token = found.token
	}
	user, refused := d.admit(ctx, token)
	if refused != nil && refused.Code != http.StatusServiceUnavailable && c.token == "" {
		d.sessions.end(c.session)
		d.log.Info("Ended a session, because its token is no longer admitted", "user", user, "code", refused.Code)
	}
	return refused
}

// reviewUntil reviews a credential periodically until ctx ends or it is no longer admitted.
func (d *desk) reviewUntil(ctx context.Context, c credential) {
	ticker := d.clock.NewTicker(reviewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			if d.review(ctx, c) != nil {
				return
			}
		}
	}
}

// refuse answers a request that is not admitted. People see the form again.
func (d *desk) refuse(w http.ResponseWriter, r *http.Request, refused *guard.Refusal) {
	if refused.Code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if r.URL.Path == "/" {
		d.showForm(w, refused.Code, refused.Message)
		return
	}
	http.Error(w, refused.Message, refused.Code)
}

// logIn starts a session for the token in a form. A token in the URL, which servers and browsers store, does
// not count.
func (d *desk) logIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	if err := r.ParseForm(); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			d.showForm(w, http.StatusRequestEntityTooLarge, "the form is too large: enter one token")
			return
		}
		d.showForm(w, http.StatusBadRequest, "the form cannot be read: enter one token")
		return
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	if token == "" {
		d.showForm(w, http.StatusBadRequest, "enter a token")
		return
	}
	user, refused := d.admit(r.Context(), token)
	if refused != nil {
		d.log.Info("Refused a login", "user", user, "from", r.RemoteAddr, "code", refused.Code)
		d.showForm(w, refused.Code, refused.Message)
		return
	}
	id, ok := d.sessions.start(user, token, d.clock.Now())
	if !ok {
		d.showForm(w, http.StatusServiceUnavailable, "too many users are logged in: try again later")
		return
	}
	d.log.Info("Logged in", "user", user, "from", r.RemoteAddr)
	setCookie(w, id, int(sessionLasts.Seconds()))
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// logOut ends the session of a request.
func (d *desk) logOut(w http.ResponseWriter, r *http.Request) {
	d.sessions.end(credentialOf(r).session)
	setCookie(w, "", -1)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func setCookie(w http.ResponseWriter, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode,
	})
}

// showForm shows the form for a token, with a message.
func (d *desk) showForm(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	if err := loginForm.Execute(w, map[string]string{"Message": message, "Audience": Audience}); err != nil {
		d.log.V(2).Info("Failed to send the form", "error", err)
	}
}
