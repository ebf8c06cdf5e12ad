package store

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"supercargo.dev/supercargo/internal/platform/version"
)

// Handler serves the HTTP API of Prometheus: instant and range queries, series, label names and
// values, and the build information that Grafana requests. Errors have Prometheus' form and status
// codes too.
func (s *Store) Handler(now func() time.Time) http.Handler {
	a := &api{store: s, now: now}
	mux := http.NewServeMux()
	for path, answer := range map[string]func(*http.Request) (any, error){
		"/api/v1/query":               a.query,
		"/api/v1/query_range":         a.queryRange,
		"/api/v1/series":              a.series,
		"/api/v1/labels":              a.labels,
		"/api/v1/label/{name}/values": a.labelValues,
		"/api/v1/status/buildinfo":    a.buildInfo,
	} {
		mux.Handle("GET "+path, respond(answer))
		mux.Handle("POST "+path, respond(answer))
	}
	return mux
}

// mostBody is the maximum size of a request's form, in bytes.
const mostBody = 1 << 20

// respond writes a response, or an error, in Prometheus' envelope.
func respond(answer func(*http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		envelope, status := map[string]any{"status": "success"}, http.StatusOK
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		err := r.ParseForm()
		if err != nil {
			err = &parameterError{"form", err}
		} else {
			envelope["data"], err = answer(r)
		}
		if w, ok := envelope["data"].(result); ok && w.warning != "" {
			envelope["warnings"] = []string{w.warning}
		}
		if err != nil {
			var kind string
			kind, status = classify(err)
			envelope = map[string]any{"status": "error", "errorType": kind, "error": err.Error()}
		}
		body, err := json.Marshal(envelope)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body) // fails only if the client has gone
	})
}

// classify returns Prometheus' error type and status code for an error.
func classify(err error) (kind string, status int) {
	var (
		bad      *parameterError
		canceled promql.ErrQueryCanceled
		late     promql.ErrQueryTimeout
		storage  promql.ErrStorage
		parse    parser.ParseErrors
	)
	switch {
	case errors.As(err, &bad), errors.As(err, &parse):
		return "bad_data", http.StatusBadRequest
	case errors.As(err, &late), errors.Is(err, context.DeadlineExceeded):
		return "timeout", http.StatusServiceUnavailable
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return "canceled", 499
	case errors.As(err, &storage):
		return "internal", http.StatusInternalServerError
	}
	return "execution", http.StatusUnprocessableEntity
}

type api struct {
	store *Store
	now   func() time.Time
}

// result is the data of the response to a query.
type result struct {
	Type   parser.ValueType `json:"resultType"`
	Result parser.Value     `json:"result"`
	// warning is stated besides the data; empty for none.
	warning string
}

func (a *api) query(r *http.Request) (any, error) {
	at, err := timeParameter(r, "time", a.now())
	if err != nil {
		return nil, err
	}
	answer, err := evaluated(r, func(ctx context.Context, options promql.QueryOpts, expression string) (parser.Value, error) {
		return a.store.instant(ctx, options, expression, at)
	})
	answer.warning = a.store.short(r.FormValue("query"), at)
	return answer, err
}

func (a *api) queryRange(r *http.Request) (any, error) {
	p, err := rangeParameters(r)
	if err != nil {
		return nil, err
	}
	return evaluated(r, func(ctx context.Context, options promql.QueryOpts, expression string) (parser.Value, error) {
		return a.store.evaluate(ctx, func() (promql.Query, error) {
			return a.store.engine.NewRangeQuery(ctx, a.store.db, options, expression, p.start, p.end, p.step)
		})
	})
}

// evaluated evaluates the expression of a request within the request's bounds.
func evaluated(r *http.Request, evaluate func(context.Context, promql.QueryOpts, string) (parser.Value, error)) (result, error) {
	ctx, cancel, err := bounded(r)
	if err != nil {
		return result{}, err
	}
	defer cancel()
	options, err := queryOptions(r)
	if err != nil {
		return result{}, err
	}
	value, err := evaluate(ctx, options, r.FormValue("query"))
	if err != nil {
		return result{}, err
	}
	return result{Type: value.Type(), Result: value}, nil
}

// series returns the sorted labels of the series that match one of the selectors.
func (a *api) series(r *http.Request) (any, error) {
	p, err := a.selection(r)
	if err != nil {
		return nil, err
	}
	if len(p.selectors) == 0 {
		return nil, &parameterError{"match[]", errors.New("at least one is required")}
	}
	q, err := a.store.db.Querier(p.start, p.end)
	if err != nil {
		return nil, err
	}
	defer func() { _ = q.Close() }() // read-only, so a failure to close loses nothing
	found := []labels.Labels{}
	for _, matchers := range p.selectors {
		set := q.Select(r.Context(), false, nil, matchers...)
		for set.Next() {
			found = append(found, set.At().Labels())
		}
		if err := set.Err(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, labels.Compare)
	return slices.CompactFunc(found, labels.Equal), nil
}

func (a *api) labels(r *http.Request) (any, error) {
	return a.names(r, func(q names, matchers []*labels.Matcher) ([]string, error) {
		list, _, err := q.LabelNames(r.Context(), nil, matchers...)
		return list, err
	})
}

func (a *api) labelValues(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if !isLabelName(name) {
		return nil, &parameterError{"name", errors.New("must be the name of a label")}
	}
	return a.names(r, func(q names, matchers []*labels.Matcher) ([]string, error) {
		list, _, err := q.LabelValues(r.Context(), name, nil, matchers...)
		return list, err
	})
}

// names returns what list finds for the selectors of a request, sorted and without duplicates.
func (a *api) names(r *http.Request, list func(names, []*labels.Matcher) ([]string, error)) (any, error) {
	p, err := a.selection(r)
	if err != nil {
		return nil, err
	}
	q, err := a.store.db.Querier(p.start, p.end)
	if err != nil {
		return nil, err
	}
	defer func() { _ = q.Close() }() // read-only, so a failure to close loses nothing
	if len(p.selectors) == 0 {
		p.selectors = [][]*labels.Matcher{nil}
	}
	all := []string{}
	for _, matchers := range p.selectors {
		found, err := list(q, matchers)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			all = append(all, strings.Clone(s)) // the strings are only valid until the querier is closed
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (a *api) buildInfo(*http.Request) (any, error) {
	return map[string]string{"version": "2.24.0", "revision": version.Version, "branch": "supercargo"}, nil
}
