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

// Requests are tried maxTries times. Between tries passes a random time that doubles
// on the whole, from firstPause to longestPause, or as long as the cloud says.
const (
	maxTries     = 5
	firstPause   = 250 * time.Millisecond
	longestPause = 10 * time.Second
)

// pause returns how long to wait after so many failures in a row, at least one: a
// random time between the half and the whole of firstPause times two to the power of
// failures-1, and no longer than longestPause. share is random in [0, 1).
func pause(failures uint, share float64) time.Duration {
	whole := longestPause
	if failures < 10 {
		whole = min(longestPause, firstPause<<(failures-1))
	}
	return whole/2 + time.Duration(share*float64(whole/2))
}

// asked returns how long the cloud asks to wait, 0 if it does not say.
func asked(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, time.Minute)
}

// await waits, or returns an error if that is no longer wanted.
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

// transient reports whether a request may succeed when it is made again: the cloud was
// asked too much, had a fault of its own, or could not be reached.
func transient(err error) bool {
	if status := statusOf(err); status != 0 {
		return status == http.StatusTooManyRequests || status >= 500 && status != http.StatusNotImplemented
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) // an answer that broke off
}

// retry makes a client repeat requests that may succeed the next time. What creates
// something is not repeated here: it may have been done though the answer says no.
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
