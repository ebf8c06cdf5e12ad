//go:build replicas

package replicas

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"supercargo.dev/supercargo/autoscaler/adapter/nginx"
)

// configuration is nginx's configuration. The log contains a request as soon as its client has the answer,
// because nothing is buffered. Least connections is nginx's closest approximation of one common queue.
var configuration = template.Must(template.New("nginx.conf").Parse(`
daemon off;
user root;
worker_processes 1;
pid {{.Dir}}/nginx.pid;
error_log {{.Dir}}/error.log warn;
events { worker_connections 8192; }
http {
    {{.LogFormat}}
    access_log {{.Dir}}/access.log supercargo;
    client_body_temp_path {{.Dir}}/body;
    proxy_temp_path {{.Dir}}/proxy;
    fastcgi_temp_path {{.Dir}}/fastcgi;
    uwsgi_temp_path {{.Dir}}/uwsgi;
    scgi_temp_path {{.Dir}}/scgi;
    upstream service {
        least_conn;
{{- range .Replicas}}
        server {{.}} max_fails=0;
{{- end}}
    }
    server {
        listen {{.Listen}} backlog=4096;
        location / {
            proxy_pass http://service;
            proxy_read_timeout 120s;
        }
    }
    server {
        listen {{.Status}};
        access_log off;
        location = /stub_status { stub_status; }
        location = /generation { return 200 "{{.Generation}}"; }
    }
}
`))

// balancer is a running nginx in front of replicas that may change.
type balancer struct {
	dir            string
	listen, status string
	cmd            *exec.Cmd
	exited         chan struct{}

	mu         sync.Mutex
	generation int
}

// startBalancer starts nginx in front of some replicas. The caller must stop it.
func startBalancer(t *testing.T, replicas []string) *balancer {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatalf("%v: install Debian's nginx (apt-get install --no-install-recommends nginx)", err)
	}
	b := &balancer{dir: t.TempDir(), listen: freeAddress(t), status: freeAddress(t), exited: make(chan struct{})}
	if err := b.write(replicas); err != nil {
		t.Fatal(err)
	}
	b.cmd = exec.Command(path, "-c", filepath.Join(b.dir, "nginx.conf"), "-p", b.dir, "-e", filepath.Join(b.dir, "error.log"))
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = b.cmd.Wait() // its output is in its log
		close(b.exited)
	}()
	if err := b.serves(t.Context(), "1"); err != nil {
		b.stop(t)
		t.Fatal(err)
	}
	return b
}

// stop kills nginx, and shows its output if the test failed.
func (b *balancer) stop(t *testing.T) {
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	<-b.exited
	if t.Failed() {
		said, _ := os.ReadFile(filepath.Join(b.dir, "error.log"))
		t.Logf("nginx said:\n%s", said[max(0, len(said)-4000):])
	}
}

// write writes the next configuration.
func (b *balancer) write(replicas []string) error {
	b.generation++
	file, err := os.Create(filepath.Join(b.dir, "nginx.conf"))
	if err != nil {
		return err
	}
	err = configuration.Execute(file, struct {
		*balancer
		Dir, Listen, Status, LogFormat string
		Generation                     int
		Replicas                       []string
	}{b, b.dir, b.listen, b.status, nginx.LogFormat, b.generation, replicas})
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}

// use makes nginx serve the replicas that of returns. It returns when no process of nginx sends requests to
// other replicas: the old process accepts no requests, and finishes those it has. Concurrent calls are
// serialized. Without replicas it does not change nginx.
func (b *balancer) use(ctx context.Context, of func() []string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	replicas := of()
	if len(replicas) == 0 {
		return nil
	}
	before, err := b.processes()
	if err != nil {
		return err
	}
	if err := b.write(replicas); err != nil {
		return err
	}
	if err := b.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		return fmt.Errorf("reload nginx: %w", err)
	}
	if err := b.serves(ctx, strconv.Itoa(b.generation)); err != nil {
		return err
	}
	return until(ctx, "the nginx of before takes no requests", func() (bool, error) {
		now, err := b.processes()
		return !slices.ContainsFunc(now, func(pid int) bool { return slices.Contains(before, pid) }), err
	})
}

// serves waits until a configuration is active.
func (b *balancer) serves(ctx context.Context, generation string) error {
	return until(ctx, "nginx has configuration "+generation, func() (bool, error) {
		text, err := get(ctx, "http://"+b.status+"/generation")
		return text == generation, err
	})
}

// processes returns the processes of nginx that accept requests.
func (b *balancer) processes() ([]int, error) {
	master := b.cmd.Process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", master, master))
	if err != nil {
		return nil, fmt.Errorf("check nginx: %w", err)
	}
	var taking []int
	for child := range strings.FieldsSeq(string(children)) {
		title, err := os.ReadFile("/proc/" + child + "/cmdline")
		if err != nil || len(title) == 0 || strings.Contains(string(title), "shutting down") {
			continue // it has ended, or soon will
		}
		pid, err := strconv.Atoi(child)
		if err != nil {
			return nil, err
		}
		taking = append(taking, pid)
	}
	return taking, nil
}

// connections returns the counts of the status page.
func (b *balancer) connections(ctx context.Context) (nginx.Status, error) {
	text, err := get(ctx, "http://"+b.status+"/stub_status")
	if err != nil {
		return nginx.Status{}, err
	}
	return nginx.ParseStatus(text)
}

// aside sends requests that are not part of the load, each on a new connection.
var aside = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := aside.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return string(body), err
}
