//go:build browser

package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"supercargo.dev/supercargo/test/kit/testfile"
)

//go:embed checks.js
var checks string

// patience is how long the browser may take for one page.
const patience = time.Minute

// names are the program names of Chromium on various systems.
var names = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "headless-shell"}

// browser is the context of the one browser of all tests.
var browser context.Context

func TestMain(m *testing.M) {
	path, err := findChromium()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to start a sandbox as root
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	var closeBrowser context.CancelFunc
	browser, closeBrowser = chromedp.NewContext(allocator)
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintf(os.Stderr, "start %s: %v\n", path, err)
		os.Exit(1)
	}
	code := m.Run()
	closeBrowser()
	stop()
	os.Exit(code)
}

func findChromium() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("found none of %q: install Chromium (on Debian: apt-get install chromium fonts-dejavu-core) "+
		"or set CHROMIUM to the path of one", names)
}

// view contains the settings with which a page is viewed.
type view struct {
	scheme string // light or dark
	width  int64  // of the window, in pixels
}

var views = []view{{"light", 1400}, {"dark", 1400}, {"light", 360}, {"dark", 360}}

func (v view) String() string { return fmt.Sprintf("%s-%d", v.scheme, v.width) }

// action is an action without a result.
type action = chromedp.Action[chromedp.Void]

// command sends a command of the protocol.
func command[P any](c cdp.Command[P, cdp.Empty], params P) action {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, c, params)
		return chromedp.Void{}, err
	}
}

// prefer makes the browser emulate the colour scheme, and a medium such as print; "" is the screen.
func prefer(scheme, medium string) action {
	return command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// tab is an open page and its faults.
type tab struct {
	context context.Context
	url     string
	own     string // prefix of the addresses that it may request; empty for only its url

	mu     sync.Mutex // guards faults, which the browser's goroutine adds to
	faults []string
}

// open shows the HTML in a new tab until the test ends.
func open(t *testing.T, html string, v view, before ...action) *tab {
	t.Helper()
	file := testfile.New(t, "page.html", html)
	return visit(t, "file://"+file, "", v, before...)
}

// visit shows a page in a new tab until the test ends. The page may request only addresses with the prefix
// own, if own is not empty.
func visit(t *testing.T, url, own string, v view, before ...action) *tab {
	t.Helper()
	inside, closeTab := chromedp.NewContext(browser)
	t.Cleanup(closeTab)
	limited, cancel := context.WithTimeout(inside, patience)
	t.Cleanup(cancel)
	p := &tab{context: limited, url: url, own: own}
	if err := chromedp.Listen(limited, p.listen); err != nil {
		t.Fatal(err)
	}
	actions := []action{
		command(log.Enable, cdp.Empty{}), command(network.Enable, network.EnableParams{}), command(audits.Enable, cdp.Empty{}),
		prefer(v.scheme, ""), chromedp.EmulateViewport(v.width, 900),
	}
	actions = append(append(actions, before...), chromedp.Navigate(p.url), chromedp.Evaluate[chromedp.Void](checks))
	p.do(t, actions...)
	return p
}

// listen records events that a correct page does not cause.
func (p *tab) listen(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			p.note("console %s: %s", e.Type, asJSON(e.Args))
		}
	case *runtime.EventExceptionThrown:
		p.note("exception: %s", asJSON(e.ExceptionDetails))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.note("log %s: %s", e.Entry.Level, e.Entry.Text)
		}
	case *audits.EventIssueAdded:
		p.note("issue %s: %s", e.Issue.Code, asJSON(e.Issue.Details))
	case *network.EventRequestWillBeSent:
		if e.Request.URL != p.url && (p.own == "" || !strings.HasPrefix(e.Request.URL, p.own)) {
			p.note("request: %s", e.Request.URL)
		}
	case *page.EventJavascriptDialogOpening:
		p.note("dialog: %s", e.Message)
		// The page waits for the response, and this function must not block.
		go func() {
			_ = chromedp.Do(p.context, command(page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}))
		}()
	}
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (p *tab) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// seen returns the faults so far.
func (p *tab) seen(t *testing.T) []string {
	t.Helper()
	ask[int](t, p, "0") // the browser's events are ordered: this answer comes after all earlier ones
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

func (p *tab) do(t *testing.T, actions ...action) {
	t.Helper()
	if err := chromedp.Do(p.context, actions...); err != nil {
		t.Fatalf("drive the browser: %v", err)
	}
}

// result returns the result of an action.
func result[T any](t *testing.T, p *tab, a chromedp.Action[T]) T {
	t.Helper()
	answer, err := chromedp.Run(p.context, a)
	if err != nil {
		t.Fatalf("drive the browser: %v", err)
	}
	return answer
}

// ask returns the value of a JavaScript expression.
func ask[T any](t *testing.T, p *tab, expression string) T {
	t.Helper()
	return result(t, p, chromedp.Evaluate[T](expression))
}

// picture writes the whole page to dist/browser/.
func (p *tab) picture(t *testing.T, name string) {
	t.Helper()
	image := result(t, p, chromedp.FullScreenshot(100))
	folder := filepath.Join("..", "..", "dist", "browser")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), image, 0o644); err != nil {
		t.Fatal(err)
	}
}
