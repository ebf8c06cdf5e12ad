package prometheus

import (
	"fmt"
	"io"
	"net/http"
)

// bounded limits decompressed responses to most bytes, because readers hold them in memory as a whole.
type bounded struct {
	next http.RoundTripper
	most int64
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = &boundedBody{ReadCloser: answer.Body, left: b.most, most: b.most}
	return answer, nil
}

type boundedBody struct {
	io.ReadCloser
	left, most int64
}

// Read implements io.Reader. It requests one byte beyond the limit to detect longer responses.
func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the response has more than %d bytes", b.most)
	}
	return n, err
}

// CloseIdleConnections passes the call of http.Client to the wrapped transport.
func (b bounded) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
