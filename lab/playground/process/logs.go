package process

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// The log files of a playground. logNames lists all of them.
const (
	EtcdLog       = "etcd.log"
	KubernetesLog = "kubernetes.log" // of all components that log through klog
	KwokLog       = "kwok.log"
	ClusterAPILog = "cluster-api.log"
	KarpenterLog  = "karpenter.log"
)

var logNames = []string{EtcdLog, KubernetesLog, KwokLog, ClusterAPILog, KarpenterLog}

// logs are the open log files of one playground.
type logs struct {
	also   *syncWriter // nil if no copy is wanted
	gaveUp func()
	files  map[string]*os.File
}

// openLogs opens the log files and adds them to the outputs of klog. Everything logged is also
// written to also, unless it is nil. gaveUp is called when some code in this process tries to exit
// through klog.
func openLogs(dir string, also io.Writer, gaveUp func()) (*logs, error) {
	l := &logs{gaveUp: gaveUp, files: map[string]*os.File{}}
	if also != nil {
		l.also = &syncWriter{w: also}
	}
	for _, name := range logNames {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open log: %w", err), l.close())
		}
		l.files[name] = f
	}
	klogSinks.add(l)
	return l, nil
}

// writer returns the writer of the log with the given name.
func (l *logs) writer(name string) io.Writer {
	if l.also == nil {
		return l.files[name]
	}
	return io.MultiWriter(l.files[name], l.also)
}

func (l *logs) close() error {
	klogSinks.remove(l)
	var errs []error
	for _, f := range l.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// syncWriter makes a caller's writer safe for concurrent use.
type syncWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *syncWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}

// klogSinks copies the klog output of this process to all running playgrounds.
var klogSinks klogFanout

type klogFanout struct {
	once  sync.Once
	mu    sync.Mutex
	sinks map[*logs]io.Writer
}

func (k *klogFanout) add(l *logs) {
	k.once.Do(takeKlog)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sinks == nil {
		k.sinks = map[*logs]io.Writer{}
	}
	k.sinks[l] = l.writer(KubernetesLog)
}

func (k *klogFanout) remove(l *logs) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.sinks, l)
}

// gaveUp notifies all playgrounds that some code tries to exit. The playground at fault is unknown.
func (k *klogFanout) gaveUp() {
	k.mu.Lock()
	sinks := slices.Collect(maps.Keys(k.sinks))
	k.mu.Unlock()
	for _, l := range sinks {
		l.gaveUp()
	}
}

// Write never fails, because klog would exit the process.
func (k *klogFanout) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.sinks {
		_, _ = w.Write(b)
	}
	return len(b), nil
}

// takeKlog redirects klog from the terminal and prevents klog.Fatal and klog.FlushAndExit from
// ending the process: they end only the calling goroutine, and the playgrounds are notified.
//
// It never restores klog, because goroutines of the Kubernetes libraries may outlive their
// Component, and log.
func takeKlog() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{
		"logtostderr":     "false",
		"alsologtostderr": "false",
		"stderrthreshold": "FATAL",
		"one_output":      "true", // else an error is written three times, once per severity's file
	} {
		if err := flags.Set(name, value); err != nil {
			panic(fmt.Sprintf("klog has no flag %s=%s: %v", name, value, err))
		}
	}
	klog.SetOutput(&klogSinks)
	ctrllog.SetLogger(klog.Background()) // else controller-runtime warns on the terminal
	klog.OsExit = func(int) {
		klogSinks.gaveUp()
		runtime.Goexit()
	}
}

// explained is an error that already quotes a log.
type explained struct {
	error
	quote string
}

func (e *explained) Error() string { return e.error.Error() + e.quote }
func (e *explained) Unwrap() error { return e.error }

// lastLines returns the last lines of a file, at most n, each indented.
func lastLines(path string, n int) (string, error) {
	const most = 64 << 10
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return "", err
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	data = bytes.TrimRight(data, "\n")
	if len(data) == 0 {
		return "", nil
	}
	lines := strings.Split(string(data), "\n")
	lines = lines[max(0, len(lines)-n):]
	return "  " + strings.Join(lines, "\n  "), nil
}
