package openstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// Requests are tried maxTries times. The time between tries is random and on average doubles from firstPause to
// longestPause, or is what the cloud requests.
const (
	maxTries     = 5
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
)

// pause returns how long to wait after the given number of failures in a row, at least one: a random time between half
// and all of firstPause times two to the power of failures-1, at most longestPause. share is random in [0, 1).
func pause(failures uint, share float64) time.Duration {
	whole := longestPause
	if failures < 10 {
		whole = min(longestPause, firstPause<<(failures-1))
	}
	return whole/2 + time.Duration(share*float64(whole/2))
}

// asked returns how long the cloud requests to wait, 0 if it does not.
func asked(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, time.Minute)
}

// await waits, and returns an error if the context ends.
func await(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// transient reports whether a request may succeed when it is repeated: the cloud limited its rate, had an internal
// error, or could not be reached.
func transient(err error) bool {
	if status := statusOf(err); status != 0 {
		return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) // a response that broke off
}

// retry makes a client repeat requests that may succeed the next time. Requests that create something are not repeated
// here: they may have succeeded despite the error.
func retry(client *gophercloud.ProviderClient) {
	again := func(ctx context.Context, header http.Header, err error, failures uint) error {
		if failures >= maxTries || ctx.Err() != nil {
			return err
		}
		if stopped := await(ctx, max(pause(failures, rand.Float64()), asked(header))); stopped != nil {
			return fmt.Errorf("%w, after %w", stopped, err)
		}
		return nil
	}
	client.MaxBackoffRetries = maxTries
	client.RetryBackoffFunc = func(ctx context.Context, code *gophercloud.ErrUnexpectedResponseCode, _ error, failures uint) error {
		return again(ctx, code.ResponseHeader, *code, failures) // 429: nothing was done
	}
	client.RetryFunc = func(ctx context.Context, method, url string, _ *gophercloud.RequestOpts, err error, failures uint) error {
		logsIn := strings.HasSuffix(url, "/auth/tokens")
		if !transient(err) || method == http.MethodPost && !logsIn {
			return err
		}
		var code gophercloud.ErrUnexpectedResponseCode
		errors.As(err, &code)
		return again(ctx, code.ResponseHeader, err, failures)
	}
}
