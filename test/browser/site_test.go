//go:build browser

package browser

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// newDocumentation serves the site that `make site SITE_URL=/` has built.
func newDocumentation(t *testing.T) *httptest.Server {
	t.Helper()
	folder := filepath.Join("..", "..", "dist", "site")
	if _, err := os.Stat(filepath.Join(folder, "index.html")); err != nil {
		t.Fatalf("there is no site: run `make test-browser`: %v", err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(folder)))
	t.Cleanup(server.Close)
	return server
}

// tooWide returns a fault if a reader must scroll the page sideways. Code and tables are scrolled by themselves.
const tooWide = `((d) => d.scrollWidth > d.clientWidth ? ["the page is " + d.scrollWidth + " wide, the window " + d.clientWidth] : [])(document.documentElement)`

// TestPagesOfTheSiteAreInOrder checks two pages in light and dark, wide and narrow, and at one of each other kind in
// one of these: what they look like is the same.
func TestPagesOfTheSiteAreInOrder(t *testing.T) {
	site := newDocumentation(t)
	for name, page := range map[string]struct {
		path  string
		views []view
	}{
		"home":       {"/", views},
		"start":      {"/docs/start-playground/", views},
		"index":      {"/docs/", views[3:]},
		"conditions": {"/docs/reference/conditions/", views[2:3]},
		"operations": {"/docs/operations/", views[3:]},
		"runbook":    {"/docs/runbooks/NodeFleetNotReady/", views[1:2]},
		"replicas":   {"/docs/replicas/", views[2:3]},
		"source":     {"/source/manifests/samples/nodefleet.yaml/", views[3:]},
	} {
		for _, v := range page.views {
			t.Run(name+"-"+v.String(), func(t *testing.T) {
				p := visit(t, site.URL+page.path, site.URL+"/", v)
				p.until(t, "document.readyState === 'complete' && !document.querySelector('#search').hidden")
				p.picture(t, "site-"+name+"-"+v.String())
				faults := append(ask[[]string](t, p, tooWide), p.axe(t)...)
				for _, fault := range append(faults, p.seen(t)...) {
					t.Error(fault)
				}
			})
		}
	}
}

// TestTheSiteIsUsedByKeysAlone skips to the text, searches and opens what is found.
func TestTheSiteIsUsedByKeysAlone(t *testing.T) {
	site := newDocumentation(t)
	p := visit(t, site.URL+"/", site.URL+"/", view{"light", 1400})
	p.until(t, "!document.querySelector('#search').hidden")
	p.do(t, chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	p.until(t, "document.activeElement.id === 'main'")
	p.do(t, chromedp.KeyEvent("/"))
	p.until(t, "document.activeElement.id === 'query'")
	// The protocol types the key too, although the page has prevented it.
	p.do(t, chromedp.Evaluate[chromedp.Void]("document.querySelector('#query').value = ''"), chromedp.KeyEvent("billingPeriod"))
	p.until(t, "document.querySelectorAll('#results a').length > 0")
	p.do(t, chromedp.KeyEvent(kb.ArrowDown))
	if found := ask[string](t, p, "document.activeElement.getAttribute('href')"); !strings.HasPrefix(found, "/docs/") {
		t.Errorf("the first result leads to %q", found)
	}
	for _, fault := range p.axe(t) {
		t.Error(fault)
	}
	p.do(t, chromedp.KeyEvent(kb.Escape))
	p.until(t, "document.querySelector('#results').hidden")
	for _, fault := range p.seen(t) {
		t.Error(fault)
	}
}

// TestTheContentsAreOpenOnAWideScreenAndClosedOnANarrowOne, where they would fill it.
func TestTheContentsAreOpenOnAWideScreenAndClosedOnANarrowOne(t *testing.T) {
	site := newDocumentation(t)
	for width, open := range map[int64]bool{1400: true, 360: false} {
		p := visit(t, site.URL+"/docs/audit/", site.URL+"/", view{"light", width})
		p.until(t, "!document.querySelector('#search').hidden")
		if got := ask[bool](t, p, "document.querySelector('#menu').open"); got != open {
			t.Errorf("in a window of %d pixels the contents are open: %v, want %v", width, got, open)
		}
		if got := ask[string](t, p, "document.querySelector('nav [aria-current]').textContent"); !strings.Contains(got, "See what a cluster costs") {
			t.Errorf("the contents mark %q as the current page", got)
		}
	}
}

// TestTheAddressOfAnAlertLeadsToItsPage: alerts name the pages by their files.
func TestTheAddressOfAnAlertLeadsToItsPage(t *testing.T) {
	site := newDocumentation(t)
	p := visit(t, site.URL+"/docs/runbooks/NodeFleetNotReady.md/", site.URL+"/", view{"light", 1400})
	p.until(t, "location.pathname === '/docs/runbooks/NodeFleetNotReady/'")
}
