//go:build !kubernetes1.36

package podwire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Wrap returns a copy of config whose clients see the gangs of pods of every version.
func Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return transport{next} })
	return config
}

type transport struct{ next http.RoundTripper }

// WrappedRoundTripper gives client-go access to the wrapped transport.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil || !ofPods(request.URL.Path) {
		return response, err
	}
	switch kind, parameters, err := mime.ParseMediaType(response.Header.Get("Content-Type")); {
	case err != nil || kind != runtime.ContentTypeProtobuf:
	case parameters["stream"] == "watch":
		response.Body = &events{body: response.Body}
	default:
		response.Body = &object{body: response.Body}
	}
	return response, nil
}

// ofPods reports whether a path is that of pods: /api/v1/pods, /api/v1/namespaces/NAMESPACE/pods, or a subpath of the
// latter.
func ofPods(path string) bool {
	_, below, ok := strings.Cut(path, "/api/v1/") // the server's own path may precede it
	if !ok {
		return false
	}
	if parts := strings.SplitN(below, "/", 4); parts[0] == "namespaces" && len(parts) > 2 {
		return parts[2] == "pods"
	}
	return below == "pods"
}

// object is the body of a response that is one object.
type object struct {
	body io.ReadCloser
	read io.Reader // the unread rest, once body has been read
}

// Read implements io.Reader.
func (o *object) Read(p []byte) (int, error) {
	if o.read == nil {
		all, err := io.ReadAll(o.body)
		if err != nil {
			return 0, err
		}
		renameInObject(all)
		o.read = bytes.NewReader(all)
	}
	return o.read.Read(p)
}

// Close implements io.Closer.
func (o *object) Close() error { return o.body.Close() }

// events is the body of a watch: events, each preceded by its length in four bytes.
type events struct {
	body  io.ReadCloser
	frame []byte // the current length and event
	left  []byte // the unread end of frame
}

// largestEvent is the maximum that client-go accepts.
const largestEvent = 16 << 20

// Read implements io.Reader. It returns no bytes of an event before it has read all of it.
func (e *events) Read(p []byte) (int, error) {
	if len(e.left) == 0 {
		if err := e.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.left)
	e.left = e.left[n:]
	return n, nil
}

func (e *events) next() error {
	const header = 4
	e.frame = append(e.frame[:0], make([]byte, header)...)
	if _, err := io.ReadFull(e.body, e.frame); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(e.frame)
	if length > largestEvent {
		return fmt.Errorf("watch pods: an event has %d bytes: must be at most %d", length, largestEvent)
	}
	e.frame = append(e.frame, make([]byte, length)...)
	if _, err := io.ReadFull(e.body, e.frame[header:]); err != nil {
		return err
	}
	renameInEvent(e.frame[header:])
	e.left = e.frame
	return nil
}

// Close implements io.Closer.
func (e *events) Close() error { return e.body.Close() }
