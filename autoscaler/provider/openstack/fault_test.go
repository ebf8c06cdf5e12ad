package openstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"supercargo.dev/supercargo/autoscaler/provider"
)

// said is a response of the cloud.
func said(code int, body string) error {
	return gophercloud.ErrUnexpectedResponseCode{Method: "POST", URL: "https://nova.example.org/servers", Expected: []int{202}, Actual: code, Body: []byte(body)}
}

func TestErrorsBecomeDecisions(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		want  verdict
		again bool
	}{
		{"quota", said(403, `{"forbidden": {"code": 403, "message": "Quota exceeded for cores: Requested 8, but already used 16 of 20 cores"}}`), overQuota, false},
		{"quota of ports", said(403, `{"forbidden": {"message": "Maximum number of ports exceeded"}}`), overQuota, false},
		{"quota of server group members", said(403, `{"forbidden": {"message": "Quota exceeded, too many servers in group"}}`), overQuota, false},
		{"quota, as old clouds have it", said(413, ""), overQuota, false},
		{"policy", said(403, `{"forbidden": {"message": "Policy doesn't allow os_compute_api:servers:create to be performed."}}`), unfit, false},
		{"bad flavor", said(400, `{"badRequest": {"message": "Flavor's disk is too small for requested image."}}`), unfit, false},
		{"missing image", said(404, ""), unfit, false},
		{"conflict", said(409, ""), unfit, false},
		{"token or password", said(401, ""), locked, false},
		{"token that cannot be renewed", &gophercloud.ErrUnableToReauthenticate{ErrOriginal: said(503, ""), ErrReauth: said(401, "")}, locked, false},
		{"quota after a new token", &gophercloud.ErrErrorAfterReauthentication{ErrOriginal: said(403, "quota")}, overQuota, false},
		{"too many requests", said(429, ""), unknown, true},
		{"fault of the cloud", said(500, ""), unknown, true},
		{"overload", said(503, ""), unknown, true},
		{"never to be", said(501, ""), unknown, false},
		{"connection", &timeout{}, unknown, true},
		{"broken off", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), unknown, true},
		{"anything else", errors.New("what"), unknown, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			for _, err := range []error{tc.err, &fault{"create a server", tc.err}} {
				if got := judge(err); got != tc.want {
					t.Errorf("verdict of %v is %d, want %d", err, got, tc.want)
				}
				if got := transient(err); got != tc.again {
					t.Errorf("%v is asked again: %v, want %v", err, got, tc.again)
				}
			}
		})
	}
}

// timeout is an error of the network.
type timeout struct{}

func (*timeout) Error() string   { return "i/o timeout" }
func (*timeout) Timeout() bool   { return true }
func (*timeout) Temporary() bool { return true }

func TestMessagesAreTheCloudsOwnWords(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"wrapped", said(403, `{"forbidden": {"code": 403, "message": "Quota exceeded"}}`), "Quota exceeded"},
		{"not wrapped", said(502, "<html>\n  Bad   gateway</html>"), "HTTP 502 <html> Bad gateway</html>"},
		{"empty", said(502, ""), "HTTP 502 Bad Gateway"},
		{"wrapped without words", said(400, `{"badRequest": {}}`), `HTTP 400 {"badRequest": {}}`},
		{"no answer", errors.New("no route to host"), "no route to host"},
	}
	for _, tc := range tests {
		if got := messageOf(tc.err); got != tc.want {
			t.Errorf("%s: message is %q, want %q", tc.name, got, tc.want)
		}
	}
}

// userDataAsSent is what Nova repeats when it refuses user data.
var userDataAsSent = strings.Repeat("aHVzaC1odXNo", 10) + "=="

func TestTokensAndUserDataAreNotRepeated(t *testing.T) {
	answer := said(400, `{"badRequest": {"message": "Invalid input for field/attribute user_data. Value: `+userDataAsSent+`. It is too long"}}`)
	l := &login{where: "Secret a/b"}
	for _, text := range []string{
		messageOf(answer), l.explain("create a server", answer).Error(), fmt.Sprintf("%v", fmt.Errorf("round: %w", l.explain("create", answer))),
		messageOf(errors.New("token gAAAAABk" + strings.Repeat("x_-Y", 40) + " is bad")),
	} {
		if strings.Contains(text, "aHVzaC1o") || strings.Contains(text, "gAAAA") || !strings.Contains(text, "[…]") {
			t.Errorf("%q tells what was sent", text)
		}
	}
	if text := scrub("server 11111111-2222-3333-4444-555555555555 is gone"); strings.Contains(text, "…") {
		t.Errorf("an ID is taken for a token: %q", text)
	}
}

func TestSomebodyIsToldWhatToPutRight(t *testing.T) {
	l := &login{where: "Secret a/b"}
	l.auth.IdentityEndpoint, l.endpoint.Region = "https://k/v3", "North"
	tests := []struct {
		name, reason string
		err          error
		says         []string
	}{
		{"password", "CredentialsRefused", said(401, `{"error": {"message": "The request you have made requires authentication."}}`), []string{"Secret a/b", "Correct them", "https://k/v3"}},
		{"role", "Forbidden", said(403, `{"forbidden": {"message": "Policy doesn't allow it"}}`), []string{"Secret a/b", "may not list servers", "role"}},
		{"region", "EndpointMissing", &gophercloud.ErrEndpointNotFound{}, []string{`region "North"`, "spec.openStack.region"}},
	}
	for _, tc := range tests {
		var refused *provider.Refused
		err := l.explain("list servers", tc.err)
		if !errors.As(err, &refused) || refused.Reason != tc.reason {
			t.Errorf("%s: %v is not refused for %s", tc.name, err, tc.reason)
			continue
		}
		for _, text := range tc.says {
			if !strings.Contains(refused.Message, text) {
				t.Errorf("%s: %q does not say %q", tc.name, refused.Message, text)
			}
		}
		if isCredentials(err) != (tc.reason == "CredentialsRefused") {
			t.Errorf("%s: is about credentials: %v", tc.name, isCredentials(err))
		}
	}
	err := l.explain("list servers", said(500, "oops"))
	if refused := (*provider.Refused)(nil); errors.As(err, &refused) || err.Error() != "list servers: HTTP 500 oops" || statusOf(err) != http.StatusInternalServerError {
		t.Errorf("a fault of the cloud is %v", err)
	}
}

func TestPausesDoubleUpToALimitWithJitter(t *testing.T) {
	tests := []struct {
		failures uint
		most     time.Duration
	}{{1, 250 * time.Millisecond}, {2, 500 * time.Millisecond}, {5, 4 * time.Second}, {6, 8 * time.Second}, {7, 10 * time.Second}, {100, 10 * time.Second}}
	for _, tc := range tests {
		if got := pause(tc.failures, 0); got != tc.most/2 {
			t.Errorf("the shortest pause after %d failures is %v, want %v", tc.failures, got, tc.most/2)
		}
		if got := pause(tc.failures, 0.999999); got > tc.most || got < tc.most*99/100 {
			t.Errorf("the longest pause after %d failures is %v, want %v", tc.failures, got, tc.most)
		}
	}
}

func TestACloudMaySayHowLongToWait(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "0": 0, "7": 7 * time.Second, "3600": time.Minute, "-1": 0, "soon": 0, "99999999999999999999": 0} {
		if got := asked(http.Header{"Retry-After": {text}}); got != want {
			t.Errorf("Retry-After %q is %v, want %v", text, got, want)
		}
	}
}

func TestWaitingEndsWhenNobodyWantsItAnyMore(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := await(ctx, time.Hour); !errors.Is(err, why) {
		t.Errorf("waiting ends with %v", err)
	}
	if err := await(t.Context(), 0); err != nil {
		t.Errorf("waiting for nothing: %v", err)
	}
}

// FuzzMessageOf searches for a response that causes a crash, or that repeats a token.
func FuzzMessageOf(f *testing.F) {
	for _, body := range []string{"", "{}", `{"a": {"message": "b"}}`, `{"a": []}`, `[1]`, "<html>", `{"error": {"message": 3}}`} {
		f.Add(400, body)
	}
	f.Fuzz(func(t *testing.T, code int, body string) {
		for _, text := range []string{body, `{"a": {"message": "` + body + userDataAsSent + `"}}`, body + " " + userDataAsSent} {
			if got := messageOf(said(code, text)); strings.Contains(got, userDataAsSent) {
				t.Errorf("message of %q is %q", text, got)
			}
		}
	})
}
