package kit

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/manifests"
	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/kit/testfile"
)

// The timeout of a wait, and its polling interval.
const (
	Patience = 5 * time.Minute
	Poll     = 200 * time.Millisecond
)

// Site is a control plane with Supercargo's CRDs. All tests of a package share one, because starting one
// takes longer than most of them.
type Site struct {
	*playground.Playground
	// Client has an administrator's permissions.
	Client client.WithWatch
}

// Sites starts a site when the first test needs it.
type Sites struct {
	options playground.Options
	once    sync.Once
	site    *Site
	err     error
}

// NewSites returns Sites that have not been started.
func NewSites(options playground.Options) *Sites { return &Sites{options: options} }

// Get returns the site.
func (s *Sites) Get() (*Site, error) {
	s.once.Do(func() { s.site, s.err = start(s.options) })
	return s.site, s.err
}

// start starts the scheduler last, as a user who installs Supercargo does: programs report a missing CRD.
func start(options playground.Options) (*Site, error) {
	without := options
	without.NoScheduler = true
	p, err := playground.Start(context.Background(), without)
	if err != nil {
		return nil, err
	}
	s := &Site{Playground: p}
	if s.Client, err = newClient(p.Config()); err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := s.define(ctx); err != nil || options.NoScheduler {
		return s, err
	}
	_, err = p.StartScheduler(ctx, options.SchedulerConfig)
	return s, err
}

// newClient returns a client for the kinds of Kubernetes, CRDs and the kinds of Supercargo, that sends up to 500
// requests per second.
func newClient(config *rest.Config, add ...func(*runtime.Scheme) error) (client.WithWatch, error) {
	scheme := fixtures.Scheme()
	for _, kinds := range append(add, apiextensionsv1.AddToScheme) {
		if err := kinds(scheme); err != nil {
			return nil, err
		}
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 500, 1000
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// NewClient returns a client like that of a site, also for the kinds that add adds.
func NewClient(t testing.TB, config *rest.Config, add ...func(*runtime.Scheme) error) client.WithWatch {
	t.Helper()
	c, err := newClient(config, add...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// define installs the CRDs, and waits until they are served.
func (s *Site) define(ctx context.Context) error {
	err := fs.WalkDir(manifests.CRDs, "crd", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		crd, err := ReadCRD(path)
		if err != nil {
			return err
		}
		return s.Client.Create(ctx, crd)
	})
	if err != nil {
		return err
	}
	for {
		var errs []error
		for _, list := range []client.ObjectList{
			&v1alpha1.MachineProfileList{}, &v1alpha1.MigrationList{}, &v1alpha1.NodeFleetList{}, &v1alpha1.ReplicaPolicyList{}, &v1alpha1.WorkerPoolList{},
			&v1alpha1.ConsolidationList{},
		} {
			errs = append(errs, s.Client.List(ctx, list))
		}
		err := errors.Join(errs...)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for Supercargo's kinds to be served: %w", err)
		case <-time.After(Poll):
		}
	}
}

// ReadCRD reads one of the CRDs in the manifests.
func ReadCRD(path string) (*apiextensionsv1.CustomResourceDefinition, error) {
	text, err := manifests.CRDs.ReadFile(path)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, yaml.Unmarshal(text, crd)
}

// stop stops the site if it was started, and returns its errors.
func (s *Sites) stop() error {
	if s.site == nil {
		return s.err
	}
	return errors.Join(s.site.Err(), s.site.Stop())
}

// GlobalLog contains the lines of code that logs without its own logger.
var GlobalLog = &Log{}

// Main runs the tests of a package and stops their sites. Tests wait most of the time, so more of them run
// concurrently than there are processors, unless the flag is given.
func Main(m *testing.M, parallel string, sites ...*Sites) int {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", parallel); err != nil {
			panic(err) // the flag does not exist
		}
	}
	ctrl.SetLogger(GlobalLog.Logger("global"))
	code := m.Run()
	for _, s := range sites {
		if err := s.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// Log stores the log of a program.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger returns a logger whose lines begin with a name.
func (l *Log) Logger(name string) logr.Logger {
	return funcr.New(func(prefix, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		fmt.Fprintf(&l.text, "%s %s\n", prefix, args)
	}, funcr.Options{LogTimestamp: true, TimestampFormat: "15:04:05.000", Verbosity: 1}).WithName(name)
}

// Write adds the output of a separate process.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

// String returns the whole log.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Tail returns the last n lines.
func (l *Log) Tail(n int) string {
	lines := strings.Split(l.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Waiting contains the parameters of a wait.
type Waiting struct {
	// Patience is the timeout, Poll the polling interval.
	Patience, Poll time.Duration
	// Meanwhile is called at every poll; it may be nil.
	Meanwhile func()
	// Show describes the state on a timeout.
	Show func() string
}

// Eventually polls until check returns "", or fails the test on a timeout.
func (s *Site) Eventually(t testing.TB, w Waiting, what string, check func() string) {
	t.Helper()
	deadline := time.Now().Add(w.Patience)
	var last string
	for time.Now().Before(deadline) {
		if w.Meanwhile != nil {
			w.Meanwhile()
		}
		if last = check(); last == "" {
			return
		}
		select {
		case <-s.Done():
			t.Fatalf("%s: the playground has ended: %v", what, s.Err())
		case <-time.After(w.Poll):
		}
	}
	t.Fatalf("%s: still %s; %s", what, last, w.Show())
}

// Namespace returns a namespace.
func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Objects reads the objects in a file.
func Objects(t testing.TB, path string) (found []client.Object) {
	t.Helper()
	text := testfile.Read(t, path)
	objects := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := objects.Decode(&object.Object); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatalf("read %s: %v", path, err)
		}
		found = append(found, object)
	}
}
