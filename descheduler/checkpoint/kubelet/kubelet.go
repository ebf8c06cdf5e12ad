// Package kubelet is the portable fallback: the kubelet's API takes the checkpoint (POST
// /checkpoint/NAMESPACE/POD/CONTAINER), with any runtime that supports it. It cannot restore.
//
// The runtime writes the checkpoint as a tar to the kubelet's checkpoints folder, from where it
// is sent. So the bytes are copied at least once more than in package containerd, and are on disk
// meanwhile. The container must be frozen before; otherwise the runtime lets it run on, past its
// checkpoint.
package kubelet

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/archive"
)

const (
	// maxAnswer bounds an HTTP response, and maxConfig config.dump, in bytes.
	maxAnswer = 64 << 10
	maxConfig = 1 << 20
	// notesFile is a file of the work folder; see note.
	notesFile = "kubelet.json"
)

// Freezer inspects and freezes containers. Package containerd implements it, and package cgroup
// does for other runtimes.
type Freezer interface {
	Inspect(context.Context, checkpoint.Container) (checkpoint.Facts, error)
	State(context.Context, checkpoint.Container) (checkpoint.State, error)
	Freeze(context.Context, checkpoint.Container) error
	Thaw(context.Context, checkpoint.Container) error
	Kill(context.Context, checkpoint.Container) error
}

// Source takes checkpoints through the kubelet's API.
type Source struct {
	Freezer
	// URL is the kubelet's URL, such as https://10.0.0.7:10250.
	URL string
	// HTTP is the client for it; see [Client].
	HTTP *http.Client
	// Folder is the kubelet's checkpoints folder.
	Folder string
}

var _ checkpoint.Source = (*Source)(nil)

// Client returns a client for a kubelet with a certificate for name. The certificate must be in
// authorities, in PEM, or be signed by one of them. The client calls token for every request.
func Client(authorities []byte, name string, token func() (string, error)) (*http.Client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, errors.New("the file with the kubelet's certificate authorities has no certificate")
	}
	wire := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: name}}
	return &http.Client{Transport: bearer{wire, token}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// bearer adds a bearer token.
type bearer struct {
	http.RoundTripper
	token func() (string, error)
}

// RoundTrip sends a request with the token.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := b.token()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return b.RoundTripper.RoundTrip(r)
}

// Inspect requires a target whose agent can stage a checkpoint of the kubelet.
func (s *Source) Inspect(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	facts, err := s.Freezer.Inspect(ctx, c)
	facts.Requirements.Backend = v1alpha1.BackendKubelet
	return facts, err
}

// note is the content of notesFile.
type note struct {
	// Archive is the file that the kubelet wrote; empty until the kubelet has answered.
	Archive string
	// Before are the names of the container's checkpoints that existed before the request. If
	// Archive is empty, all other checkpoints of it were made for the request.
	Before []string
	// Image is the ID of the base image.
	Image string
}

// Dump requests a checkpoint from the kubelet.
func (s *Source) Dump(ctx context.Context, c checkpoint.Container, dir string) (int64, error) {
	if err := s.Forget(ctx, c, dir); err != nil {
		return 0, err
	}
	facts, err := s.facts(ctx, c)
	if err != nil {
		return 0, err
	}
	// Noted before the request: an agent that crashes meanwhile must find the file, which
	// contains all secrets of the container.
	n := note{Image: facts.Requirements.BaseImageID}
	if n.Before, err = s.files(c); err != nil {
		return 0, err
	}
	if err := write(dir, n); err != nil {
		return 0, fmt.Errorf("record the start of the checkpoint of %s: %w", c, err)
	}
	if n.Archive, err = s.ask(ctx, c); err != nil {
		return 0, err
	}
	info, err := os.Lstat(n.Archive)
	if err != nil {
		return 0, checkpoint.Fail(checkpoint.ReasonDumpFailed, "the kubelet reported the checkpoint of %s at %s, where it does not exist: check --kubelet-checkpoints", c, n.Archive)
	}
	if err := write(dir, n); err != nil {
		return 0, fmt.Errorf("record the location of the checkpoint of %s: %w", c, err)
	}
	return info.Size(), nil
}

// files returns the names of the kubelet's checkpoints of a container, which have the form
// checkpoint-POD_NAMESPACE-CONTAINER-TIME.tar.
func (s *Source) files(c checkpoint.Container) (names []string, err error) {
	all, err := os.ReadDir(s.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list checkpoints of %s: %w", c, err)
	}
	for _, file := range all {
		rest, is := strings.CutPrefix(file.Name(), "checkpoint-"+c.Pod+"_"+c.Namespace+"-"+c.Name+"-")
		at, isTar := strings.CutSuffix(rest, ".tar")
		if _, err := time.Parse(time.RFC3339, at); is && isTar && err == nil && file.Type().IsRegular() {
			names = append(names, file.Name())
		}
	}
	return names, nil
}

// write writes the note. After a crash there is either the old or the new one.
func write(dir string, n note) error {
	text, err := json.Marshal(n)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return err
	}
	file := filepath.Join(dir, notesFile)
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// describer describes a container that may be frozen.
type describer interface {
	Describe(context.Context, checkpoint.Container) (checkpoint.Facts, error)
}

func (s *Source) facts(ctx context.Context, c checkpoint.Container) (checkpoint.Facts, error) {
	if d, ok := s.Freezer.(describer); ok {
		return d.Describe(ctx, c)
	}
	return checkpoint.Facts{}, nil
}

// ask requests a checkpoint from the kubelet, and returns the file that it wrote.
func (s *Source) ask(ctx context.Context, c checkpoint.Container) (string, error) {
	address, err := url.JoinPath(s.URL, "checkpoint", c.Namespace, c.Pod, c.Name)
	if err != nil {
		return "", fmt.Errorf("request a checkpoint of %s from the kubelet: %w", c, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, nil)
	if err != nil {
		return "", fmt.Errorf("request a checkpoint of %s from the kubelet: %w", c, err)
	}
	response, err := s.HTTP.Do(request)
	if err != nil {
		return "", fmt.Errorf("request a checkpoint of %s from the kubelet: %w", c, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("read the kubelet's response: %w", err)
	}
	return s.file(c, response.StatusCode, text)
}

// file returns the file that the kubelet's response names.
func (s *Source) file(c checkpoint.Container, code int, answer []byte) (string, error) {
	if code != http.StatusOK {
		return "", checkpoint.Fail(checkpoint.ReasonDumpFailed, "the kubelet did not create a checkpoint of %s: %d %.300s: it requires the feature gate ContainerCheckpoint, CRIU in its container runtime, and permission of the agent for nodes/checkpoint",
			c, code, strings.TrimSpace(string(answer)))
	}
	var list struct {
		Items []string `json:"items"`
	}
	if err := json.Unmarshal(answer, &list); err != nil || len(list.Items) != 1 {
		return "", checkpoint.Fail(checkpoint.ReasonDumpFailed, "the kubelet did not report the location of the checkpoint of %s: %.300s", c, answer)
	}
	// Only the base name is used: the agent may see the kubelet's folder under another path.
	return filepath.Join(s.Folder, path.Base(list.Items[0])), nil
}

func read(dir string) (note, error) {
	var n note
	text, err := os.ReadFile(filepath.Join(dir, notesFile))
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	return n, err
}

// Archive writes the tar of the kubelet.
func (s *Source) Archive(_ context.Context, c checkpoint.Container, dir string, w io.Writer) error {
	n, err := read(dir)
	if err != nil {
		return checkpoint.Fail(checkpoint.ReasonDumpLost, "the checkpoint of %s is missing: %v", c, err)
	}
	f, err := os.Open(n.Archive)
	if err != nil {
		return checkpoint.Fail(checkpoint.ReasonDumpLost, "the checkpoint of %s is missing: %v", c, err)
	}
	defer f.Close()
	if err := rewrite(w, f, n.Image); err != nil {
		return fmt.Errorf("send the checkpoint of %s: %w", c, err)
	}
	return nil
}

// rewrite copies a checkpoint, and replaces the name of its base image by the ID, with which
// every node that has the image finds it.
func rewrite(w io.Writer, r io.Reader, image string) error {
	a := archive.NewWriter(w)
	for t := tar.NewReader(r); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			return a.Close()
		}
		if err != nil {
			return err
		}
		name := path.Clean(header.Name)
		switch {
		case header.Typeflag != tar.TypeReg:
			// Folders are created with their files.
		case name == archive.Config && image != "":
			err = config(a, t, image)
		default:
			err = a.From(name, header.Size, t)
		}
		if err != nil {
			return err
		}
	}
}

func config(a *archive.Writer, r io.Reader, image string) error {
	text, err := io.ReadAll(io.LimitReader(r, maxConfig))
	if err != nil {
		return err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return fmt.Errorf("read %s: %w", archive.Config, err)
	}
	var id bytes.Buffer
	if err := json.NewEncoder(&id).Encode(image); err != nil {
		return err
	}
	fields["rootfsImageRef"] = id.Bytes()
	if text, err = json.Marshal(fields); err != nil {
		return err
	}
	return a.Bytes(archive.Config, text)
}

// Forget removes the file that the kubelet wrote.
func (s *Source) Forget(_ context.Context, c checkpoint.Container, dir string) error {
	n, err := read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove the checkpoint of %s: %w", c, err)
	}
	made := []string{n.Archive}
	if n.Archive == "" {
		if made, err = s.files(c); err != nil {
			return err
		}
		made = slices.DeleteFunc(made, func(name string) bool { return slices.Contains(n.Before, name) })
		for i := range made {
			made[i] = filepath.Join(s.Folder, made[i])
		}
	}
	for _, file := range made {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the checkpoint of %s: %w", c, err)
		}
	}
	return nil
}
