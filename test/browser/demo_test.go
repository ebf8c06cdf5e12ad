//go:build browser

package browser

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestTheDashboardFollowsTheDemoWhileItRuns opens the page of `supercargo demo --open`, whose clusters are real control
// planes.
func TestTheDashboardFollowsTheDemoWhileItRuns(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "supercargo", "demo", "--open", "--fleet=false", "--duration", "30s")
	cmd.Env = append(os.Environ(), "BROWSER=true") // the program that opens nothing
	output, input := io.Pipe()
	cmd.Stdout, cmd.Stderr = input, input
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		_ = input.Close() // it returns no error
	}()
	address := make(chan string, 1)
	var said strings.Builder
	go func() {
		defer close(address)
		pattern := regexp.MustCompile(`http://\S+`)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if found := pattern.FindString(lines.Text()); found != "" && len(address) == 0 {
				address <- found
			}
			said.WriteString(lines.Text() + "\n")
		}
	}()
	url := <-address
	if url == "" {
		t.Fatalf("the demo ended without an address: %v\n%s", <-ended, said.String())
	}
	own, _, _ := strings.Cut(url, "?")
	p := visit(t, url, own, views[0])
	// A playground has nodes, and pods are being bound to them.
	p.until(t, "document.querySelector('#state').dataset.state === 'live' && document.querySelectorAll('.node').length > 0")
	p.until(t, "Number(document.querySelector('#pod-count').textContent.replaceAll(',', '')) > 0")
	before := ask[string](t, p, "document.querySelector('#pod-count').textContent")
	p.until(t, "document.querySelector('#pod-count').textContent !== '"+before+"'")
	p.do(t, chromedp.Click(chromedp.CSS(".node")))
	if !ask[bool](t, p, "document.querySelector('#detail').open") {
		t.Error("a click on a node does not open it")
	}
	p.picture(t, "dashboard-demo")
	for _, fault := range append(p.axe(t), p.seen(t)...) {
		t.Error(fault)
	}
}
