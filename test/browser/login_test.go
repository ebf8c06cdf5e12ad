//go:build browser

package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/cli/dashboard"
	"supercargo.dev/supercargo/internal/platform/guard"
)

// office is a dashboard that users log in to. While it is closed, their token is not admitted.
type office struct {
	board
	clock  *clocktesting.FakeClock
	closed atomic.Bool
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{clock: clocktesting.NewFakeClock(start)}
	done := make(chan struct{})
	o.server = dashboard.NewServer(dashboard.ServerOptions{Clock: o.clock, Done: done, Admit: func(_ context.Context, token string) (string, *guard.Refusal) {
		if token != "t0ken" || o.closed.Load() {
			return "", &guard.Refusal{Code: http.StatusUnauthorized, Message: "a token that the API server of this cluster accepts is required"}
		}
		return "ann", nil
	}})
	o.http = httptest.NewTLSServer(o.server.Handler())
	t.Cleanup(func() {
		close(done)
		o.http.Close()
	})
	return o
}

// logIn enters a token in the form.
func (p *tab) logIn(t *testing.T, token string) {
	t.Helper()
	p.do(t, chromedp.Click(chromedp.CSS("#token")), chromedp.KeyEvent(token), chromedp.Click(chromedp.CSS(".login button")))
}

const (
	hasForm = `document.querySelector("#token") !== null`
	isLive  = `document.querySelector("#state.live") !== null && document.querySelectorAll(".node").length > 0`
)

func TestUsersLogInAndOutAndLoseThePageWithTheirToken(t *testing.T) {
	for _, v := range views {
		t.Run(v.String(), func(t *testing.T) {
			o := newOffice(t)
			o.show(t, sampleCluster(5, start), start)
			p := visit(t, o.http.URL+"/", o.http.URL+"/", v, command(security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true}))
			p.until(t, hasForm)
			p.picture(t, "login-"+v.String())
			for _, fault := range append(append(ask[[]string](t, p, "checks.overflow()"), p.axe(t)...), p.seen(t)...) {
				t.Errorf("the form: %s", fault)
			}

			p.logIn(t, "t0ken")
			p.until(t, isLive)
			for _, fault := range append(p.axe(t), p.seen(t)...) {
				t.Errorf("the page: %s", fault)
			}

			p.do(t, chromedp.Click(chromedp.CSS(".logout button")))
			p.until(t, hasForm)

			p.logIn(t, "guess") // from here on, the browser reports answers such as 401
			p.until(t, `document.querySelector("[role=alert]") !== null`)
			if text := ask[string](t, p, "document.body.innerText"); !strings.Contains(text, "a token that the API server of this cluster accepts is required") {
				t.Errorf("the form says\n%s", text)
			}
			p.logIn(t, "t0ken")
			p.until(t, isLive)
			o.closed.Store(true)
			for end := time.Now().Add(patience); !ask[bool](t, p, hasForm); {
				if time.Now().After(end) {
					t.Fatal("a user whose token is revoked still sees the page")
				}
				o.clock.Step(30 * time.Second)
			}
		})
	}
}
