//go:build replicas

package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"supercargo.dev/supercargo/internal/input/trace"
)

// The load: the first crowd of the series, replayed at a higher speed.
const (
	series      = "../../data/web/flash-crowd.csv"
	seriesFrom  = 2*time.Hour + 50*time.Minute
	compression = 60  // seconds of the series per second of the test
	rateFactor  = 0.5 // of the rates of the series
	seed        = 1
	// meanWork is the mean CPU time of a request. It is exponentially distributed, up to maxWork times the
	// mean.
	meanWork = 4 * time.Millisecond
	maxWork  = 8
	// giveUp is the timeout of a client.
	giveUp = 10 * time.Second
)

// arrival is one future request.
type arrival struct {
	at, work time.Duration
}

// arrivals draws the requests of a Poisson process whose rate follows the series. The same seed gives the
// same requests for every law.
func arrivals(lasts time.Duration) ([]arrival, error) {
	file, err := os.Open(series)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rates, err := trace.ReadRates(series, file)
	if err != nil {
		return nil, err
	}
	draw := rand.New(rand.NewPCG(seed, 0))
	var drawn []arrival
	next := draw.ExpFloat64() // expected requests until the next one
	for i := range rates[:len(rates)-1] {
		// The rate of the series is linear between its rows. A row is half a second here, over which the mean
		// is accurate enough.
		from, to := rates[i].At, rates[i+1].At
		if to <= seriesFrom {
			continue
		}
		rate := rateFactor * (rates[i].PerSecond + rates[i+1].PerSecond) / 2
		begin, end := (from-seriesFrom).Seconds()/compression, (to-seriesFrom).Seconds()/compression
		for at := begin; ; {
			if left := (end - at) * rate; next > left {
				next -= left
				break
			}
			at += next / rate
			next = draw.ExpFloat64()
			work := min(draw.ExpFloat64(), maxWork) * float64(meanWork)
			a := arrival{at: time.Duration(at * float64(time.Second)), work: time.Duration(work)}
			if a.at >= lasts {
				return drawn, nil
			}
			if a.at >= 0 {
				drawn = append(drawn, a)
			}
		}
	}
	return nil, fmt.Errorf("%s ends before %v from %v on", series, lasts*compression, seriesFrom)
}

// answers counts the answers to clients.
type answers struct {
	mu sync.Mutex
	// Statuses counts answers by HTTP status; 0 means no answer.
	Statuses map[int]int
	// Late is the greatest delay with which a request was sent.
	Late time.Duration
	// Fault is the last error without an answer, other than a timeout of the client.
	Fault error
}

func (a *answers) count(status int, late time.Duration, fault error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Statuses[status]++
	a.Late = max(a.Late, late)
	if fault != nil {
		a.Fault = fault
	}
}

// send sends each request at its time, regardless of earlier ones, and returns when all have been answered or
// timed out. Each request has its own connection: a reload of nginx could close a kept connection just when a
// request is written to it.
func send(ctx context.Context, address string, begin time.Time, requests []arrival) *answers {
	got := &answers{Statuses: map[int]int{}}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: giveUp}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var out sync.WaitGroup
	for _, r := range requests {
		timer.Reset(time.Until(begin.Add(r.at)))
		select {
		case <-ctx.Done():
			out.Wait()
			return got
		case <-timer.C:
		}
		late := time.Since(begin.Add(r.at))
		out.Go(func() {
			status, err := ask(ctx, client, fmt.Sprintf("http://%s/?work=%v", address, r.work))
			got.count(status, late, err)
		})
	}
	out.Wait()
	return got
}

// ask returns the answer's status, or 0 without an answer, and then an error unless the client timed out.
func ask(ctx context.Context, client *http.Client, url string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err == nil {
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
	}
	var fault net.Error
	switch {
	case err == nil:
		return response.StatusCode, nil
	case errors.As(err, &fault) && fault.Timeout():
		return 0, nil
	}
	return 0, err
}
